"""Pretrained weights that a backbone starts from: a folder, an installed package, or a name on the hub.

A name may end with @REVISION: then the name itself says which weights are meant, and only their loading needs them.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from spikelm.catalog.kinds import KINDS
from spikelm.errors import ConfigError
from spikelm.machine.installed import install_command
from spikelm.machine.offline import online_fix
from spikelm.machine.services import cannot_fetch

PACKAGE = "package:"  # package:NAME is the folder model/ of an installed package
WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the latter is read by torch with weights_only
TOKENIZERS = ("tokenizer*.json", "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "*.spm")
#: kinds that backbone=hf recognises by the config.json of the weights: those of transformers' own weights
RECOGNISED = {
    model_type: name
    for name, kind in KINDS.items()
    if kind.transformers and kind.weights == name
    for model_type in (name, *kind.family)
}
BERT_SIZES = {
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
#: kind's option -> its key in config.json, where a kind has more sizes than its backbone says
MORE_SIZES = {
    "llama": {"key_value_heads": "num_key_value_heads", "head_size": "head_dim", "tied": "tie_word_embeddings"}
}
#: kind of decoder -> backbone's key -> the key and default of its config.json; Llama drops no hidden states
DROPOUT = {
    "gpt2": {"dropout": ("resid_pdrop", 0.1), "attention_dropout": ("attn_pdrop", 0.1)},
    "llama": {"attention_dropout": ("attention_dropout", 0.0)},
}
#: model_type of the weights -> backbone's key -> theirs, where they are not BERT's
SIZES = {**dict.fromkeys(("bart", "mbart", "marian"), SEQ2SEQ_SIZES), "gpt2": GPT2_SIZES}


class StatedSizes(Protocol):
    """A backbone that names its weights and states its sizes, as the config's does."""

    path: str | None
    kind: str
    layers: int
    decoder_layers: int | None
    hidden: int
    heads: int
    intermediate: int
    positions: int
    vocab: int


def on_hub(path: str) -> bool:
    """Whether a path is a name on the hub: no package, and no folder that is there or was meant."""
    folder = Path(path).expanduser()
    return not (path.startswith((PACKAGE, ".")) or folder.is_absolute() or folder.is_dir())


def pinned(path: str) -> bool:
    """Whether the path alone says which weights they are: a name on the hub with its revision."""
    return "@" in path and on_hub(path)


def weights_folder(path: str) -> Path:
    """Where the weights are, fetched from the hub (or its cache) when `path` is a name there."""
    if path.startswith(PACKAGE):
        name = path.removeprefix(PACKAGE)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ConfigError(f"backbone.path={path}: the package {name} is not installed", install_command(name))
        return Path(spec.origin).parent / "model"
    if on_hub(path):
        return _from_hub(path)
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"backbone.path={path}: no such folder", "backbone.path=FOLDER_OR_HUB_NAME")
    return folder.absolute()


def backbone_folder(backbone: StatedSizes) -> Path:
    """The folder of a backbone's weights, which must have the sizes that the backbone states."""
    path = backbone.path or ""
    for key, actual in read_sizes(path, backbone.kind).items():
        # An encoder-decoder that does not state its decoder's layers has as many as its encoder.
        stated = getattr(backbone, key) or backbone.layers if key == "decoder_layers" else getattr(backbone, key)
        refuse_other_size(key, stated, actual, path)
    return weights_folder(path)


def refuse_other_size(key: str, stated: int, actual: int, path: str) -> None:
    """Raise where the weights have another size than the config states."""
    if stated != actual:
        raise ConfigError(
            f"backbone.{key}={stated}, but the weights in {path} have {actual}",
            f"backbone=hf backbone.path={path} takes the sizes of the weights",
        )


def _from_hub(path: str) -> Path:
    for weights in WEIGHTS:  # the second only where the first is not published
        folder = _fetched(path, ["config.json", *TOKENIZERS, weights], f"backbone.path={path}", "backbone.path=FOLDER")
        if (folder / weights).is_file():
            return folder
    raise ConfigError(f"backbone.path={path}: neither {' nor '.join(WEIGHTS)} is there", _download_command(path))


def tokenizer_folder(name: str) -> Path:
    """The folder with the tokenizer of a name on the hub, without its weights; fetched, or from the hub's cache."""
    what, instead = f"the tokenizer {name}", "source.tokenizer=PATH/vocab.txt"
    folder = _fetched(name, TOKENIZERS, what, instead)
    if not any(next(folder.glob(pattern), None) for pattern in TOKENIZERS):
        raise ConfigError(f"{what}: {folder} has no tokenizer", f"{_download_command(name)}, or {instead}")
    return folder


def _fetched(path: str, files: Sequence[str], what: str, instead: str) -> Path:
    """The files of a name on the hub, which `what` calls it by; `instead` is the setting that needs no hub."""
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    name, _, revision = path.partition("@")
    reason = cannot_fetch()
    try:
        folder = huggingface_hub.snapshot_download(
            name, revision=revision or None, allow_patterns=list(files), local_files_only=bool(reason)
        )
    except (OSError, HFValidationError) as error:
        if reason:
            raise ConfigError(
                f"{what} is no folder: {reason}",
                f"{online_fix()}fetch it where there is a network ({_download_command(path)}), "
                f"or {instead} with the same files",
            ) from error
        raise ConfigError(
            f"{what} is neither a folder nor loadable from the hub: {str(error).splitlines()[0]}",
            f"check the name, the revision after @ and the network, or {instead}",
        ) from error
    return Path(folder)


def _download_command(path: str) -> str:
    name, _, revision = path.partition("@")
    return f"hf download {name}{f' --revision {revision}' if revision else ''}"


def read_kind(path: str) -> str:
    """The kind of a checkpoint by its config.json."""
    file = weights_folder(path) / "config.json"
    kind = str(_read_config(file, "known").get("model_type"))
    if kind not in RECOGNISED:
        raise ConfigError(f"{file}: model_type is {kind!r}, expected one of: {', '.join(RECOGNISED)}")
    return RECOGNISED[kind]


def read_options(path: str, kind: str) -> dict[str, Any]:
    """What only this kind of backbone has, from the checkpoint's config.json."""
    names = MORE_SIZES.get(kind, {})
    config = _read_config(weights_folder(path) / "config.json", kind.upper()) if names else {}
    return {ours: config[theirs] for ours, theirs in names.items() if config.get(theirs) is not None}


def read_dropout(path: str, kind: str) -> dict[str, float]:
    """The dropout that a decoder's weights bring, which they are trained on with."""
    config = _read_config(weights_folder(path) / "config.json", kind.upper())
    return {ours: float(config.get(theirs, default)) for ours, (theirs, default) in DROPOUT[kind].items()}


def size_names(kind: str) -> dict[str, str]:
    """The backbone's sizes by the names that its weights' config.json has for them."""
    return SIZES.get(KINDS[kind].weights, BERT_SIZES)


def read_sizes(path: str, kind: str = "bert") -> dict[str, int]:
    """The backbone's sizes from the checkpoint's config.json, which must be of the backbone's kind."""
    file = weights_folder(path) / "config.json"
    config, facts = _read_config(file, kind.upper()), KINDS[kind]
    try:
        if facts.weights == "gpt2":  # null there: four times the width
            config["n_inner"] = config.get("n_inner") or 4 * config["n_embd"]
        sizes = {ours: int(config[theirs]) for ours, theirs in size_names(kind).items()}
        sizes["positions"] -= KINDS[kind].unused_positions(int(config.get("pad_token_id") or 0))
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{file} is not the config of a {kind.upper()} checkpoint: {error!r}") from error
    if not facts.reads(str(config.get("model_type"))):
        raise ConfigError(
            f"{file}: model_type is {config.get('model_type')!r}, expected {facts.weights!r}",
            "set backbone.kind to the model's",
        )
    return sizes


def _read_config(file: Path, kind: str) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} is not the config of a {kind} checkpoint: {error!r}") from error
    return config


def weights_file(folder: Path) -> Path:
    """The file of the weights in a folder of the hub's layout."""
    for name in WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f"{folder} has neither {' nor '.join(WEIGHTS)}", "save the model there with save_pretrained")
