"""BERTSUMABS: sentences and segments, the decoder's start, two learning rates, label smoothing, saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from transformers import BertForPreTraining

from spikelm.config.compose import load_config
from spikelm.data.tokens.sentence_split import sentences
from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.errors import ConfigError
from spikelm.models.bart import SpecialTokens
from spikelm.models.bert import bert_config, build_pretraining_model
from spikelm.rivals.bertsum.bertsum_training import BertSumModule, bertsum_terms
from spikelm.rivals.bertsum.bertsumabs import BertSumAbs, build_bertsum, segments
from spikelm.rivals.bertsum.marked_sentences import sentence_tokenizer
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import pretraining_of
from spikelm.store.hashing import run_id
from spikelm.training.optimization import optimizer_and_schedule

TOKENS = SpecialTokens(pad=0, bos=40, eos=41, start=40)
OPTIONS = ["system=bertsumabs", "task=sum/xsum", "scale=smoke"]


@pytest.fixture
def model(tmp_path: Path) -> Any:
    torch.manual_seed(0)
    config = load_config(OPTIONS)
    build_pretraining_model(pretraining_of(config), vocab=40).save_pretrained(tmp_path / "bert")
    return build_bertsum(config, tmp_path / "bert", vocab=43, cls=2, tokens=TOKENS)


def test_sentences_are_marked_and_segments_alternate() -> None:
    assert sentences("A cat. Is it?\nYes! 3.5 of them") == ["A cat.", "Is it?", "Yes!", "3.5 of them"]
    tokenizer = sentence_tokenizer(train_wordpiece(["a cat sat . it was", "a cat"], 60))
    known = tokenizer.tokenizer.get_vocab()
    [ids] = tokenizer.encode_sources(["A cat. It sat."], 50)
    assert [tokenizer.tokenizer.id_to_token(index) for index in ids].count("[CLS]") == 2
    assert ids[-1] == known["[SEP]"]
    alternating = segments(torch.tensor([ids]), known["[CLS]"])[0].tolist()
    second = ids.index(known["[CLS]"], 1)
    assert alternating == [0] * second + [1] * (len(ids) - second)
    [cut] = tokenizer.encode_sources(["A cat. It sat."], 5)
    assert (len(cut), cut[-1]) == (5, known["[SEP]"])
    rows = tokenizer.encode_targets(["a cat\nit sat"], 50)
    assert rows[0][-1] == tokenizer.eos
    assert tokenizer.decode([[tokenizer.decoder_start, *rows[0]]]) == ["a cat\nit sat"]


def test_the_decoder_starts_with_berts_words_and_bert_as_it_was(model: Any, tmp_path: Path) -> None:
    before = BertForPreTraining.from_pretrained(tmp_path / "bert").bert.state_dict()
    for name, tensor in model.encoder.state_dict().items():
        assert torch.equal(tensor[:40] if "word_embeddings" in name else tensor, before[name]), name
    words = model.decoder.bert.embeddings.word_embeddings.weight
    assert torch.equal(words, model.encoder.embeddings.word_embeddings.weight)
    assert words is not model.encoder.embeddings.word_embeddings.weight, "each learns at its own rate"
    assert model.decoder.get_output_embeddings().weight is words
    assert words.shape[0] == 43


def test_segments_reach_the_encoder_in_training_and_in_generation(model: Any) -> None:
    ids = torch.tensor([[2, 7, 8, 3, 2, 9, 3]])
    mask = torch.ones_like(ids)
    model.eval()
    with torch.no_grad():
        found = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        types = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
        said = model.encoder(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        none = model.encoder(input_ids=ids, attention_mask=mask, token_type_ids=0 * types).last_hidden_state
    torch.testing.assert_close(found, said)
    assert not torch.allclose(found, none)
    made = model.generate(input_ids=ids, attention_mask=mask, num_beams=2, max_length=6)
    assert int(made[0, 0]) == TOKENS.start


def test_saved_and_loaded(model: Any, tmp_path: Path) -> None:
    model.eval().save_pretrained(tmp_path / "saved")
    again: Any = BertSumAbs.from_pretrained(tmp_path / "saved").eval()
    inputs = {"input_ids": torch.tensor([[2, 7, 3, 2, 9, 3]]), "decoder_input_ids": torch.tensor([[40, 5, 6]])}
    torch.testing.assert_close(again(**inputs).logits, model(**inputs).logits)
    assert again.generation_config.eos_token_id == TOKENS.eos


def test_encoder_and_decoder_have_rates_of_their_own(model: Any) -> None:
    paper = load_config(["system=bertsumabs", "task=sum/xsum", "scale=paper", "backbone.path=null"]).finetune
    optimizer, schedule = optimizer_and_schedule(model, paper, 200_000)
    inside = {id(p) for p in model.encoder.parameters()}
    rates = {}
    for _ in range(3):
        optimizer.step()
        schedule.step()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            rates.setdefault(id(parameter) in inside, set()).add(group["lr"])
    t = 3
    [encoder], [decoder] = rates[True], rates[False]
    assert encoder == pytest.approx(0.002 * min(t**-0.5, t * 20000**-1.5), rel=1e-6)
    assert decoder == pytest.approx(0.2 * min(t**-0.5, t * 10000**-1.5), rel=1e-6)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_labels_are_smoothed_by_a_plain_loop(model: Any) -> None:
    config = load_config(OPTIONS)
    module = BertSumModule(model.eval(), config.task, config.finetune, 10, 0, None)  # type: ignore[arg-type]
    module.smoothing = 0.1
    batch = {
        "input_ids": torch.tensor([[2, 7, 3]]),
        "attention_mask": torch.ones(1, 3, dtype=torch.long),
        "decoder_input_ids": torch.tensor([[40, 5, 6]]),
        "labels": torch.tensor([[5, 6, -100]]),
    }
    loss = float(module.step_loss(batch).detach())
    with torch.no_grad():
        logits = model(**{name: batch[name] for name in batch if name != "labels"}).logits[0]
    logs = log_softmax(logits.double().numpy(), axis=-1)
    each = [-(0.9 * logs[t, label] + 0.1 * logs[t].mean()) for t, label in enumerate((5, 6))]
    assert loss == pytest.approx(np.mean(each), rel=1e-5)


def test_it_is_pretrained_as_a_bert_and_its_decoder_is_not_part_of_that() -> None:
    config = load_config(OPTIONS)
    assert run_id(identity(pretraining_of(config))) == run_id(
        identity(pretraining_of(load_config([*OPTIONS, "backbone.decoder_layers=3"])))
    )
    assert identity(config)["needs"] == {"pretrained": run_id(identity(pretraining_of(config)))}
    with pytest.raises(ConfigError, match="task=pretrain is not valid for BERTSUMABS"):
        load_config(["system=bertsumabs", "task=pretrain"])


def test_work_and_size_at_paper_scale() -> None:
    config = load_config(["system=bertsumabs", "task=sum/xsum", "scale=paper", "backbone.path=null"])
    bert = bert_config(pretraining_of(config).backbone, 30522)
    assert (bert.num_hidden_layers, bert.num_attention_heads) == (12, 12)
    n, m, h, wide = 512, 200, 768, 2048
    encoder = 12 * (n * (4 * h * h + 2 * h * 3072) + 2 * n * n * h)
    decoder = 6 * (m * (6 * h * h + 2 * h * wide) + 2 * n * h * h + 2 * m * m * h + 2 * m * n * h)
    assert sum(term.macs for term in bertsum_terms(12, 6, h, (3072, wide), n, m)) == encoder + decoder
