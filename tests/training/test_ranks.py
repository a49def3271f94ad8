"""Several ranks without processes: their gradients add up to the whole batch's, and who they are told to be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from spikelm.config.compose import load_config
from spikelm.data.batches.by_step import IGNORED, Batch, RowBatches, shard_batch
from spikelm.data.batches.mlm_nsp import PretrainingBatches
from spikelm.data.tokens.encode import EncodedRows
from spikelm.models.bert import bert_config
from spikelm.training.devices.ranks import Ranks, first_rank_first, launched_ranks, summed
from spikelm.training.modules import GlueModule, PretrainModule, StageModule

OPTIONS = ["backbone=bert_tiny", "backbone.dropout=0", "backbone.attention_dropout=0"]


def whole_batch(rows: int, pretraining: bool) -> Batch:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 50, (rows, 9), generator=generator)
    batch = {"input_ids": ids, "token_type_ids": torch.zeros_like(ids), "attention_mask": torch.ones_like(ids)}
    if not pretraining:
        return {**batch, "labels": torch.arange(rows) % 2}
    labels = torch.where(torch.rand(ids.shape, generator=generator) < 0.3, ids, IGNORED)
    labels[0] = IGNORED  # ranks differ in masked words
    return {**batch, "labels": labels, "next_sentence_label": torch.arange(rows) % 2}


def module(task: str) -> StageModule:
    from transformers import BertForPreTraining, BertForSequenceClassification

    config = load_config([f"task={task}", *OPTIONS])
    torch.manual_seed(0)
    size = bert_config(config.backbone, 50)
    if task == "pretrain":
        return PretrainModule(BertForPreTraining(size), config.pretrain, 1, 0)
    return GlueModule(BertForSequenceClassification(size), config.task, config.finetune, 1, 0)


def gradient(found: StageModule, batch: Batch) -> dict[str, torch.Tensor]:
    found.zero_grad()
    found.step_loss(batch).backward()
    return {name: p.grad.clone() for name, p in found.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("task", "rows", "world"), [("pretrain", 5, 2), ("glue/rte", 5, 2), ("glue/rte", 1, 2)])
def test_the_mean_over_ranks_is_the_gradient_of_the_whole_batch(task: str, rows: int, world: int) -> None:
    found, batch = module(task), whole_batch(rows, task == "pretrain")
    expected = gradient(found, batch)
    parts = []
    for rank in range(world):
        mine = shard_batch(batch, rank, world)
        parts.append(gradient(found, mine))
    for name, whole in expected.items():
        mean = torch.stack([part[name] for part in parts]).mean(0)
        torch.testing.assert_close(mean, whole, rtol=1e-4, atol=1e-7)


def pretraining_batches(shard: tuple[int, int]) -> PretrainingBatches:
    from spikelm.data.sources.documents import load_documents
    from spikelm.data.tokens.packed import PackedDocuments
    from spikelm.data.tokens.tokenizer import load_tokenizer

    config = load_config(["scale=smoke", "task=pretrain"])
    tokenizer = load_tokenizer(config.source, config.backbone, CACHE)
    documents = [
        [np.array(tokenizer.encode(sentence, add_special_tokens=False).ids) for sentence in document]
        for document in itertools.islice(load_documents(config.source).splits["train"], 30)
    ]
    return PretrainingBatches(PackedDocuments.of(documents), tokenizer, 0, 6, 32, shard)


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    global CACHE
    CACHE = tmp_path_factory.mktemp("cache")


def test_ranks_share_one_masked_batch() -> None:
    whole, *parts = (pretraining_batches(shard)[3] for shard in ((0, 1), (0, 4), (1, 4), (2, 4), (3, 4)))
    assert "row_share" not in whole, "one device weighs nothing"
    for name in ("input_ids", "labels", "next_sentence_label"):
        for rank, part in enumerate(parts):
            assert torch.equal(part[name], whole[name][rank::4])
    assert sum(float(part["row_share"]) for part in parts) == pytest.approx(4)
    assert sum(float(part["label_share"]) for part in parts) == pytest.approx(4)
    tokens = [int(part["attention_mask"].sum()) for part in parts]
    assert [float(part["token_share"]) for part in parts] == pytest.approx([4 * n / sum(tokens) for n in tokens])


def test_a_rank_without_a_row_counts_nothing() -> None:
    data = EncodedRows(np.array([1, 2]), np.zeros(2, np.int8), np.array([0, 2]), np.array([1]))
    batch = RowBatches(data, 0, 4, shard=(1, 2))[0]
    assert len(batch["input_ids"]) == 1
    assert batch["row_share"] == 0
    assert batch["token_share"] == 0


def test_what_launchers_say() -> None:
    assert launched_ranks({}) == Ranks()
    assert launched_ranks({"WORLD_SIZE": "1", "RANK": "0"}) == Ranks()
    torchrun = {"WORLD_SIZE": "8", "RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert launched_ranks(torchrun) == Ranks(5, 8, 1, 4)
    step = {"SLURM_STEP_NUM_TASKS": "16", "SLURM_STEP_NUM_NODES": "2", "SLURM_PROCID": "9", "SLURM_LOCALID": "1"}
    assert launched_ranks(step) == Ranks(9, 16, 1, 8)
    assert launched_ranks({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}) == Ranks(), "a batch script without srun"


def test_one_process_sums_and_waits_for_nobody() -> None:
    x = torch.ones(2)
    assert summed(x) is x
    entered = []
    with first_rank_first(Ranks()):
        entered.append(True)
    assert entered, "at once: there is nobody to wait for"
