"""What an energy card is made of: the model that a command line names, and what it is watched on."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.catalog.checkpoint_files import weights_folder
from spikelm.catalog.kinds import KINDS, kind_of
from spikelm.catalog.quantities import counted
from spikelm.cli.find_run import find_result, weights_of
from spikelm.config.paths import default_runs_dir
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import ClassSpec, NeuronSpec
from spikelm.data.tokens.text_codec import codec_of_folder
from spikelm.errors import CheckpointError, ConfigError, DataError
from spikelm.measure.card import Inputs
from spikelm.measure.given_rate import GivenRate
from spikelm.models.architecture import architecture_of
from spikelm.models.bart import build_seq2seq
from spikelm.models.bert import bert_config, spiking_if_asked
from spikelm.models.decoders import build_decoder
from spikelm.spiking import calibrate
from spikelm.spiking.load import load_pretrained, saved_class
from spikelm.training.fit import quiet_libraries
from spikelm.training.samples import measurement_samples

SEED = 0  # of random weights, tokens and spikes
FUNCTION = "def net(): return model, inputs"


@dataclass(frozen=True)
class Subject:
    """A model and the batches that it is watched on; `inputs` says in words what they are."""

    name: str
    model: nn.Module
    batches: Inputs | list[Any]
    inputs: str
    T: int | None = None  # None: the model says it
    rows: int | None = None  # None: the first axis of the first tensor


@dataclass(frozen=True)
class Texts:
    """How many tokens a model reads, and of which text; None: drawn at random."""

    length: int
    given_rows: int | None = None
    file: Path | None = None

    @property
    def rows(self) -> int:
        """Texts that are read at once."""
        return self.given_rows or 1


def subject_of(name: str, texts: Texts, T: int | None, runs_dir: Path) -> Subject:
    """The model that a word of the command line names: module:function, a folder or a name on the hub, or a run."""
    quiet_libraries()
    module, colon, function = name.partition(":")
    if colon and function.isidentifier() and not Path(name).exists():
        return _of_function(module, function, T, texts.given_rows)
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return _of_folder(folder, texts, T)
    if not folder.exists() and "/" in name and not name.startswith((".", "/")):
        return _of_folder(weights_folder(name), texts, T)
    return _of_run(name, runs_dir)


def _of_run(name: str, runs_dir: Path) -> Subject:
    found, result = find_result(name, runs_dir)
    config = replace(result.config, runs_dir=default_runs_dir())
    if KINDS[config.backbone.kind].own_tokens and config.task.kind != "lm":
        raise ConfigError(f"{found} makes its inputs while it runs", "spikelm-energy FOLDER, the model of the run")
    model = load_pretrained(weights_of(found, result))
    samples = measurement_samples(config)
    rows = sum(len(next(iter(batch.values()))) for batch in samples)
    words = f"{counted(rows, 'row')} of {config.task.name}, its own measurement samples"
    return Subject(str(found), model, samples, words, config.time_steps)


def _of_folder(folder: Path, texts: Texts, T: int | None) -> Subject:
    """A saved model; where there is nothing but its config.json, one with random weights."""
    cls = saved_class(folder)
    weights = any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))
    torch.manual_seed(SEED)
    try:
        model: Any = load_pretrained(folder) if weights else cls(cls.config_class.from_pretrained(folder))
    except (OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"the model in {folder} cannot be loaded: {error}", "fetch or make it again") from error
    ids, words = _tokens(texts, int(model.config.vocab_size), folder)
    words += "" if weights else "; its weights are random, because the folder has none"
    return Subject(f"{cls.__name__} in {folder}", model.eval(), {"input_ids": ids}, words, T)


def _of_function(module: str, function: str, T: int | None, rows: int | None) -> Subject:
    """What a function of one's own gives: a model and the arguments of one call."""
    sys.path.insert(0, os.getcwd())
    try:
        make = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise ConfigError(f"{module}:{function}: {error}", f"{module}.py here or on PYTHONPATH") from error
    except AttributeError as error:
        raise ConfigError(f"{module} has no function {function}", FUNCTION) from error
    finally:
        sys.path.remove(os.getcwd())
    torch.manual_seed(SEED)
    given = make()
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], nn.Module):
        raise ConfigError(f"{module}:{function} gives no pair of a model and its inputs", FUNCTION)
    return Subject(f"{module}:{function}", given[0], given[1], "the inputs that the function gives", T, rows)


def sized_subject(config: Config, texts: Texts, rate: float | None) -> Subject:
    """A backbone of the config's sizes with random weights, on random tokens.

    With `rate` its neurons fire at random with it; without, they are the config's own, set on the same tokens.
    """
    quiet_libraries()
    size, kind = config.backbone, kind_of(config.backbone)
    if rate is not None and config.converted:
        if rate > 1:
            raise ConfigError(f"--rate {rate:g}: spikes that are drawn are one a value at most", "--rate 0.34")
        drawn = ClassSpec.of(GivenRate, rate=rate)
        config = replace(config, neuron=NeuronSpec(drawn.target, drawn.arguments, name="given rate"))
    if texts.length > size.positions:
        raise ConfigError(f"{size.name} has {size.positions} positions", f"--length {size.positions}")
    torch.manual_seed(SEED)
    ids, words = _tokens(texts, size.vocab, None)
    if kind.seq2seq:
        model = build_seq2seq(config)
    elif kind.causal:
        model = build_decoder(config, size.vocab, 0)
    elif kind.is_encoder:
        encoder: Any = architecture_of(size).encoder(bert_config(size, size.vocab))
        model = spiking_if_asked(encoder, config)
    else:
        raise ConfigError(f"backbone.kind={size.kind}: {kind.title} is built by its own run", "spikelm-energy RUN")
    if config.converted:
        calibrate(model, {"input_ids": ids})
    neurons = ""
    if config.fires:
        drawn_at = f"spikes drawn at random at rate {rate:g}" if rate is not None else ""
        neurons = f", {drawn_at or f'{config.neuron.name} neurons'}"
    return Subject(f"{size.name}", model.eval(), {"input_ids": ids}, f"{words}; random weights{neurons}")


def _tokens(texts: Texts, vocab: int, folder: Path | None) -> tuple[Tensor, str]:
    """Rows of tokens, and what they are in words."""
    shape = f"{counted(texts.rows, 'row')} of {counted(texts.length, 'token')}"
    if texts.file is None:
        ids = torch.randint(vocab, (texts.rows, texts.length), generator=torch.Generator().manual_seed(SEED))
        return ids, f"{shape}, drawn at random"
    if folder is None:
        raise ConfigError("--text goes with a saved model, whose tokenizer reads it", "spikelm-energy DIR --text FILE")
    try:
        text = texts.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"--text {texts.file} cannot be read: {error}") from error
    read: Sequence[int] = codec_of_folder(folder, pairs=False).encode(text).ids
    needed = texts.rows * texts.length
    if len(read) < needed:
        raise DataError(f"{texts.file} has {len(read):,} tokens, {needed:,} are wanted", "fewer --rows, or --length")
    return torch.tensor(list(read[:needed])).view(texts.rows, texts.length), f"{shape} of {texts.file}"
