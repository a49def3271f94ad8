"""The published data, where a copy lies beside the project: official counts, exact rows, clean text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from spikelm.config.compose import load_config
from spikelm.data.batches.mlm_nsp import draw_nsp_pairs
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.rows import load_rows
from spikelm.data.tokens.encode import encode_documents
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.data.tokens.tokenizer import read_vocab

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no published data beside the project")

COUNTS = {
    "rte": (2490, 277, {0: 1249, 1: 1241}),
    "mrpc": (3668, 408, {1: 2474, 0: 1194}),
    "cola": (8551, 1043, {1: 6023, 0: 2528}),
    "sst2": (67349, 872, {1: 37569, 0: 29780}),
}


def load(task: str) -> LoadedText:
    config = load_config([f"task=glue/{task}", "source=local", f"source.root={DATA}"])
    return load_rows(config.task, config.source)


@pytest.mark.parametrize("task", COUNTS)
def test_counts_and_label_distributions_are_official(task: str) -> None:
    train, dev, labels = COUNTS[task]
    text = load(task)
    assert (len(text.splits["train"]), len(text.splits["validation"])) == (train, dev)
    assert Counter(row["label"] for row in text.splits["train"]) == labels
    assert not text.warnings


def test_scores_of_stsb() -> None:
    text = load("stsb")
    assert {split: len(rows) for split, rows in text.splits.items()} == {"train": 5749, "validation": 1500}
    assert not text.warnings
    scores = np.array([row["label"] for row in text.splits["train"]])
    assert (scores.min(), scores.max()) == (0.0, 5.0)
    assert scores.mean() == pytest.approx(2.7, abs=0.01)
    assert text.splits["train"][1] == {
        "sentence1": "A man is playing a large flute.",
        "sentence2": "A man is playing a flute.",
        "label": 3.8,
        "idx": 1,
    }


def test_rows_are_exact() -> None:
    assert load("rte").splits["train"][0] == {
        "sentence1": "No Weapons of Mass Destruction Found in Iraq Yet.",
        "sentence2": "Weapons of Mass Destruction Found in Iraq.",
        "label": 1,
        "idx": 0,
    }
    quoted = load("mrpc").splits["train"][0]
    assert quoted["sentence1"].startswith('Amrozi accused his brother , whom he called " the witness " ,')
    assert quoted["label"] == 1
    sentence = "Our friends won't buy this analysis, let alone the next one we propose."
    assert load("cola").splits["train"][0] == {"sentence": sentence, "label": 1, "idx": 0}
    first = load("sst2").splits["validation"][0]
    assert first == {"sentence": "it 's a charming and often affecting journey . ", "label": 1, "idx": 0}


def test_wikitext_is_clean_and_has_next_sentences() -> None:
    config = load_config(["task=pretrain", "source=local", f"source.root={DATA}"])
    text = load_documents(config.source)
    assert {split: len(documents) for split, documents in text.splits.items()} == {"train": 600, "validation": 60}
    sentences = [sentence for document in text.splits["train"] for sentence in document]
    for mark in ("@-@", "@,@", "@.@", "<unk>", " = = ", " , ", " ; "):
        assert not [sentence for sentence in sentences if mark in sentence], mark
    assert min(len(document) for document in text.splits["train"]) >= 10
    assert 15 < np.mean([len(sentence.split()) for sentence in sentences]) < 30
    tokenizer = read_vocab(DATA / "tokenizers" / "bert-base-uncased" / "vocab.txt")
    assert tokenizer.get_vocab_size() == 30522
    documents = encode_documents(list(text.splits["validation"])[:10], tokenizer)
    labels = draw_nsp_pairs(PackedDocuments.of(documents), 64, np.random.default_rng(0), 200)[:, 4]
    assert 0.35 < np.mean(labels) < 0.65


def test_the_vocabulary_gives_berts_ids() -> None:
    tokenizer = read_vocab(DATA / "tokenizers" / "bert-base-uncased" / "vocab.txt")
    assert tokenizer.encode("Hello, Wörld! unaffable").ids == [101, 7592, 1010, 2088, 999, 14477, 20961, 3468, 102]
