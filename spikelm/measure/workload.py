"""How much work a config's run is: parameters, tokens, operations, memory and matmuls, computed without torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spikelm.catalog.energy import Term, lm_head_terms, seq2seq_terms
from spikelm.catalog.kinds import LM, kind_of, plain_terms, spiking_terms
from spikelm.config.devices import device_count, device_memory
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.schema import Config
from spikelm.measure.memory import training_memory_gb

USABLE_MEMORY = 0.9  # of a device: the rest is for its context, the libraries' work space and fragmentation


def parameter_count(size: BackboneConfig, pretraining: bool, num_labels: int = 2) -> int:
    """Parameters of a backbone with its pretraining heads or with a classifier, counted as its kind is."""
    count = kind_of(size).parameters
    if count is None:
        raise ValueError(f"the parameters of a {size.kind} are known when it is built")
    return count(size, pretraining, num_labels)


def training_terms(config: Config) -> list[Term]:
    """The spiking matmuls of one row of training at its full length: the encoder's, and the decoder's of BART."""
    if config.task.kind == "seq2seq":
        return _pair_terms(config.backbone, config.task.source_length, config.task.target_length)
    return plain_terms(_trained(config), config.stage.max_length)


def measured_terms(config: Config, spiking: bool = False) -> list[Term]:
    """What the energy of one inference is counted on: as for the result's `energy_mj`, of the ANN or `spiking`."""
    if config.task.kind == "seq2seq":
        return training_terms(config)
    return (spiking_terms if spiking else plain_terms)(_trained(config), config.measure.length)


def _trained(config: Config) -> BackboneConfig:
    """The backbone with the layers that this run trains."""
    return replace(config.backbone, layers=config.depth)


def generated_terms(config: Config) -> list[Term]:
    """The longest text that the task generates, with its beams, from the longest source."""
    task, settings = config.task, config.task.generate
    steps = max(1, settings.max_length - 1)  # the start token is given
    return _pair_terms(config.backbone, task.source_length, steps, settings.beams, causal=True)


def head_terms(config: Config) -> list[Term]:
    """The LM head of a teacher-forced row, real-valued; other kinds of tasks have none that is counted."""
    size, task = config.backbone, config.task
    length = {"seq2seq": task.target_length, LM: config.measure.length}.get(task.kind)
    return lm_head_terms(size.hidden, size.vocab, length) if length else []


def _pair_terms(size: BackboneConfig, source: int, target: int, beams: int = 1, causal: bool = False) -> list[Term]:
    decoder = size.decoder_layers or size.layers
    return seq2seq_terms(size.layers, decoder, size.hidden, size.intermediate, source, target, beams, causal)


def row_tokens(config: Config) -> int:
    """Tokens of a row of training at its full length; of a pair both sides."""
    task = config.task
    return task.source_length + task.target_length if task.kind == "seq2seq" else config.stage.max_length


@dataclass(frozen=True)
class Share:
    """One device's part of a batch, and in how many parts it is computed."""

    rows: int  # of one device's part of a batch
    micro_batch: int  # computed at a time
    accumulate: int  # parts per step
    memory_gb: float | None  # estimate with that micro batch; None where only the built model can tell
    fits: bool | None  # None where the memory of the device is not known
    checkpointing: bool  # whether activations are computed again instead of kept


def device_share(config: Config) -> Share:
    """The rows of one device: as many at a time as `trainer.micro_batch` says, else as many as its memory holds.

    Activations are computed again where the config says so, or where it says nothing and nothing else fits.
    """
    share = _share(config)
    # A norm with statistics of its own would count every batch twice (checks.py refuses it where it is asked for).
    if share.fits is False and config.trainer.activation_checkpointing is None and not config.norm:
        spared = _share(replace(config, trainer=replace(config.trainer, activation_checkpointing=True)))
        return spared if spared.fits else share
    return share


def carried_out(config: Config) -> Config:
    """The config with what it leaves to the device decided: whether activations are computed again."""
    checkpointing = device_share(config).checkpointing
    return replace(config, trainer=replace(config.trainer, activation_checkpointing=checkpointing))


def _share(config: Config) -> Share:
    """The share with activations kept or computed again as the config says; null keeps them."""
    checkpointing = bool(config.trainer.activation_checkpointing)
    rows = -(-config.stage.batch // device_count(config))
    parameters, memory = trained_parameters(config), device_memory(config)
    if parameters is None:
        micro_batch = min(rows, config.trainer.micro_batch or rows)
        return Share(rows, micro_batch, -(-rows // micro_batch), None, None, checkpointing)

    def share(micro_batch: int) -> Share:
        estimate = training_memory_gb(config, parameters, micro_batch)
        fits = None if memory is None else estimate <= USABLE_MEMORY * memory
        return Share(rows, micro_batch, -(-rows // micro_batch), estimate, fits, checkpointing)

    if config.trainer.micro_batch:
        return share(min(rows, config.trainer.micro_batch))
    shares = (share(-(-rows // parts)) for parts in range(1, rows + 1))
    return next((fitting for fitting in shares if fitting.fits is not False), share(1))


def trained_parameters(config: Config) -> int | None:
    """Parameters of the model that this run trains; None where none are trained or only the built model can tell."""
    if kind_of(config.backbone).parameters is None or config.measures_weights:
        return None
    labels = len(config.task.labels) if config.task.kind == "classification" else 1
    return parameter_count(_trained(config), config.task.kind == "pretrain", labels)
