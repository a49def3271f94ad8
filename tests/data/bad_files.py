"""Data files as accidents make them, and what must hold of each: read, or refused with one clear line and code 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tokenizers import Tokenizer

from spikelm.config.compose import load_config
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.text_files import read_documents, text_files
from spikelm.data.tokens.encode import encode_documents, encode_rows
from spikelm.errors import DataError

TEXT = st.text(max_size=30) | st.sampled_from(
    ["", " ", "\x00", "a\x00b", "\ufeff", "\u2028", "\x1c", "\r", '"', "'", "\\", "x" * 20_000, "\U0001f600", "\ud800"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
LABELS = st.sampled_from([0, 1, 0.0, "0", "1", "entailment", "not_entailment", 2, -1, "", None, 1e300, True, "nan"])
ROWS = st.fixed_dictionaries({"sentence1": TEXT, "sentence2": TEXT, "label": LABELS}) | st.dictionaries(
    st.sampled_from(["sentence1", "sentence2", "label", "x"]), ANYTHING
)
CODECS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252", "shift-jis", "ascii", "utf-7")


def _delimited(rows: list[dict[str, Any]], mark: str) -> str:
    return "\n".join([mark.join(("sentence1", "sentence2", "label")), *(mark.join(map(str, r.values())) for r in rows)])


def _json(rows: list[Any]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


LINES = st.lists(ROWS, max_size=4)
CONTENT = st.one_of(
    st.tuples(st.just(".tsv"), LINES.map(lambda rows: _delimited(rows, "\t"))),
    st.tuples(st.just(".csv"), LINES.map(lambda rows: _delimited(rows, ","))),
    st.tuples(st.just(".jsonl"), st.lists(ROWS | ANYTHING, max_size=4).map(_json)),
    st.tuples(st.sampled_from([".tsv", ".csv", ".jsonl", ".parquet"]), st.text(max_size=200)),
    st.tuples(st.just(".jsonl"), st.sampled_from(["[" * 100_000, '{"label": ' + "9" * 5000 + "}", "NaN", '"\\ud800"'])),
)
BYTES = st.builds(
    lambda content, codec: (content[0], content[1].encode(codec, "replace")), CONTENT, st.sampled_from(CODECS)
) | st.tuples(st.sampled_from([".tsv", ".csv", ".jsonl", ".parquet"]), st.binary(max_size=300))


def examined(root: Path, ending: str, content: bytes, tokenizer: Tokenizer) -> str:
    """What becomes of RTE when its files hold this: `read`, or the one line that is said."""
    folder = root / "RTE"
    folder.mkdir(parents=True)
    for split in ("train", "validation"):
        (folder / f"{split}{ending}").write_bytes(content)
    config = load_config(["task=glue/rte", "source=local", f"source.root={root}"])
    try:
        rows = load_rows(config.task, config.source)
        encoded = encode_rows(config.task, rows.splits["train"], tokenizer, 16)
        assert len(encoded) == len(rows.splits["train"])
        assert set(encoded.labels.tolist()) <= {0, 1}
    except DataError as error:
        said = error
    else:
        return "read"
    assert said.exit_code == 2
    assert said.what.strip()
    assert len(said.what) < 5000
    return said.what


def examined_text(root: Path, content: bytes, tokenizer: Tokenizer) -> str:
    """The same for pretraining text."""
    root.mkdir(parents=True)
    (root / "train.txt").write_bytes(content)
    try:
        documents = list(read_documents(text_files(root)["train"][0]))
        assert len(list(encode_documents(documents, tokenizer))) == len(documents)
    except DataError as error:
        said = error
    else:
        return "read"
    assert said.what.strip()
    return said.what
