"""Pretrained weights that a backbone starts from: a folder, an installed package, or a name on the hub."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from spikelm.data.remembered import cached_file_hash
from spikelm.errors import ConfigError

PACKAGE = "package:"  # package:NAME is the folder model/ of an installed package
SIZES = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "intermediate": "intermediate_size",
    "positions": "max_position_embeddings",
    "vocab": "vocab_size",
}
SEQ2SEQ_SIZES = {
    "layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "hidden": "d_model",
    "heads": "encoder_attention_heads",
    "intermediate": "encoder_ffn_dim",
    "positions": "max_position_embeddings",
    "vocab": "vocab_size",
}

GPT2_SIZES = {
    "layers": "n_layer",
    "hidden": "n_embd",
    "heads": "n_head",
    "intermediate": "n_inner",
    "positions": "n_positions",
    "vocab": "vocab_size",
}


def weights_folder(path: str) -> Path:
    """Where the weights are, fetched from the hub (or its cache) when `path` is a name there."""
    if path.startswith(PACKAGE):
        name = path.removeprefix(PACKAGE)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ConfigError(f"backbone.path={path}: the package {name} is not installed", f"pip install {name}")
        return Path(spec.origin).parent / "model"
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder.absolute()
    if folder.is_absolute() or path.startswith("."):
        raise ConfigError(f"backbone.path={path}: no such folder")
    return _from_hub(path)


def _from_hub(name: str) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    wanted = ["config.json", "generation_config.json", "model.safetensors", "tokenizer*.json", "vocab.txt"]
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=wanted))
    except (OSError, HFValidationError) as error:
        raise ConfigError(
            f"backbone.path={name} is neither a folder nor loadable from the hub: {str(error).splitlines()[0]}",
            "check the name, the network and HF_HUB_OFFLINE, or give a folder",
        ) from error


def read_sizes(path: str, kind: str = "bert") -> dict[str, Any]:
    """The backbone's sizes from the checkpoint's config.json, which must be of the backbone's kind."""
    file = weights_folder(path) / "config.json"
    try:
        found = json.loads(file.read_text())
        names = SIZES if kind in ("bert", "bertsum") else GPT2_SIZES if kind == "gpt2" else SEQ2SEQ_SIZES
        if kind == "gpt2":
            found["n_inner"] = found.get("n_inner") or 4 * found["n_embd"]
        sizes = {ours: int(found[theirs]) for ours, theirs in names.items()}
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{file} is not the config of a {kind.upper()} checkpoint: {error!r}") from error
    expected = "bert" if kind == "bertsum" else kind
    if found.get("model_type") != expected:
        raise ConfigError(
            f"{file}: model_type is {found.get('model_type')!r}, expected {expected!r}",
            "set backbone.kind to the model's",
        )
    return sizes


def weights_identity(path: str, cache: Path) -> str:
    """The hash of the weights themselves: where they lie cannot change a result."""
    file = weights_folder(path) / "model.safetensors"
    if not file.is_file():
        raise ConfigError(f"{file} is not there; weights are read from safetensors only")
    return cached_file_hash(file, cache)
