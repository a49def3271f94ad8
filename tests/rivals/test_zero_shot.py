"""GPT-2 without training: prompts that survive the cut, windows of text, rows padded left, sampling by seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from spikelm.catalog.checkpoint_files import read_sizes
from spikelm.catalog.energy import causal_terms
from spikelm.config.compose import load_config
from spikelm.data.batches.causal_blocks import CausalBatches
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.tokens.bpe import train_bpe
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.data.tokens.running_text_tokenizer import end_of_text, marked
from spikelm.errors import ConfigError
from spikelm.models.gpt2 import build_gpt2, load_gpt2
from spikelm.rivals.gpt2_zero_shot.prompts import PROMPT, prompt_tokenizer
from spikelm.rivals.gpt2_zero_shot.zero_shot import PromptGenerator, first_sentences, padded_left
from spikelm.training.causal import CausalModule
from spikelm.training.generation import Split

OPTIONS = ["system=gpt2", "task=sum/xsum", "scale=smoke"]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return build_gpt2(load_config(OPTIONS), vocab=50, end=2).eval()


def test_the_prompt_is_behind_every_article_however_long() -> None:
    tokenizer = prompt_tokenizer(train_bpe(["one two three four"], 300))
    for text in ("one two", "one two three four " * 30):
        [ids] = tokenizer.encode_sources([text], 40)
        assert len(ids) <= 40
        assert tokenizer.decode([ids])[0].endswith("TL;DR:")
        assert tokenizer.decode([ids])[0].startswith("one two")
    assert PROMPT == "\nTL;DR:"
    assert tokenizer.tokenizer.id_to_token(tokenizer.eos) == "</s>"


def test_three_sentences_are_kept() -> None:
    assert first_sentences(" One. Two!\nThree? Four. Five", 3) == "One.\nTwo!\nThree?"
    assert first_sentences("no end", 3) == "no end"


def test_rows_padded_left_are_the_rows() -> None:
    ids, mask = padded_left(torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]]))
    assert ids.tolist() == [[5, 6, 7], [0, 8, 9]]
    assert mask.tolist() == [[1, 1, 1], [0, 1, 1]]


def prompts(seed: int, top_k: int = 2) -> PromptGenerator:
    options = {"do_sample": True, "top_k": top_k, "max_new_tokens": 6, "pad_token_id": 2, "eos_token_id": 2}
    split = Split("", ["a", "b"], ["x", "y"])
    made = PromptGenerator(("rougeL",), [split], options, lambda ids: " ".join(map(str, ids)), seed=seed)
    made.start()
    return made


def test_what_is_sampled_depends_on_the_seed_and_a_row_on_no_other(model: Any) -> None:
    ids, mask = torch.tensor([[5, 6, 7, 8], [9, 4, 2, 2]]), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    batch = {"input_ids": ids, "attention_mask": mask, "rows": torch.tensor([1, 0])}
    texts = []
    for seed in (0, 0, *range(1, 6)):
        torch.manual_seed(99)  # whatever was drawn before
        generator = prompts(seed)
        generator.generate(model, batch, 0)
        texts.append(generator.texts[0])
    assert texts[0] == texts[1]
    assert any(text != texts[0] for text in texts[2:])
    greedy = prompts(0, top_k=1)
    greedy.generate(model, batch, 0)
    alone = model.generate(
        input_ids=ids[1:, :2], attention_mask=mask[1:, :2], do_sample=False, max_new_tokens=6, pad_token_id=2
    )[0, 2:].tolist()
    written = alone[: alone.index(2)] if 2 in alone else alone
    assert greedy.texts[0][0] == " ".join(map(str, written)), "padding on the left changes nothing"
    assert [length for length, _ in greedy.lengths] == [4, 2]


def test_documents_end_with_a_mark_and_windows_go_on() -> None:
    tokenizer = train_bpe(["a b c d e f"], 280)
    text = marked(LoadedText({"train": [["a b", "c d"], ["e f"]]}, "hash"), end_of_text(tokenizer))
    assert [list(document) for document in text.splits["train"]] == [["a b", " c d</s>"], ["e f</s>"]]
    documents = PackedDocuments.of([[np.arange(4), np.arange(4, 7)], [np.arange(7, 9)]])
    batches = CausalBatches(documents, tokenizer, seed=0, batch=8, max_length=5, across=True)
    rows = sorted(map(tuple, batches.draw(np.random.default_rng(0), None).tolist()))
    assert rows == [(0, 5), (5, 9), (7, 9)]
    batch = batches.batch_of(np.array([[5, 9], [7, 9]]), 0)
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8], [7, 8, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]


def test_the_loss_is_that_of_the_next_token(model: Any) -> None:
    config = load_config([*OPTIONS[:1], "task=pretrain", "scale=smoke"])
    module = CausalModule(model, config.pretrain, 1, 0)
    ids, mask = torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    with torch.no_grad():
        loss = module.step_loss({"input_ids": ids, "attention_mask": mask})
        logs = log_softmax(model(input_ids=ids, attention_mask=mask).logits.double().numpy(), axis=-1)
    expected = -(logs[0, 0, 6] + logs[0, 1, 7] + logs[1, 0, 9]) / 3
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_weights_are_given_by_a_folder(model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    assert read_sizes(str(tmp_path), "gpt2") == {
        **{"layers": 1, "hidden": 32, "heads": 2, "intermediate": 64},
        **{"positions": 448, "vocab": 50},
    }
    ids = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(load_gpt2(tmp_path).eval()(ids).logits, model(ids).logits)


def test_published_size_and_work() -> None:
    config = load_config(["system=gpt2", "task=sum/cnn_dm", "scale=paper", "backbone.path=null"])
    with torch.device("meta"):
        large = build_gpt2(config, 50257, 50256)
    assert sum(p.numel() for p in large.parameters()) == 1_557_611_200
    n, h = 5, 32
    expected = 2 * (n * (4 * h * h + 2 * h * 64) + 2 * sum(range(1, n + 1)) * h)
    assert sum(term.macs for term in causal_terms(2, h, 64, n)) == expected


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["finetune.steps=3"], "without training"),
        (["task.source_length=440"], "leaves no room"),
        (["neuron=lif"], "is a plain model"),
        (["task=mt/wmt16_enro"], "not valid for GPT-2"),
    ],
)
def test_what_does_not_fit_is_refused(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config([*OPTIONS, *overrides])
