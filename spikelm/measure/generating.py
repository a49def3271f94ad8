"""One text as a model writes it: its tokens as they come, and what a token took in time, spikes and modelled energy.

A token is one that went through the model, read or written. A decoder reads its prompt and all that it writes but the
last token; an encoder-decoder reads its source, and its decoder takes one step for each token. Beams all count.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from spikelm.catalog.energy import (
    PICOJOULE,
    Term,
    decoder_terms,
    encoder_decoder_terms,
    energy_mj,
    lm_head_terms,
    mean_rate,
    spiking_energy_mj,
)
from spikelm.config.plugins import rounding_neurons
from spikelm.errors import ConfigError
from spikelm.measure.firing import FiringMeter
from spikelm.measure.trained_model import energies
from spikelm.spiking.conversion import conversion_of
from spikelm.spiking.sites import ARCHITECTURES, BART, GPT2, LLAMA, MARIAN

UNFINISHED = "�"  # of a letter whose last bytes are still to come: up to three bytes of it may be there


@dataclass(frozen=True)
class Decoding:
    """How a text is written. None leaves a setting of sampling to the model's own generation_config.json."""

    most: int  # tokens written
    beams: int = 1
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0  # of what is sampled
    cache: bool = True
    further: Mapping[str, Any] = field(default_factory=dict)  # of generate(), as a task asks for it


@dataclass(frozen=True)
class TokenCost:
    """What one token that went through the model took, in the mean; energy is modelled by the paper's rule, in mJ."""

    spikes: float | None = None  # events of all neurons; None of a model without spikes
    firing_rate: float | None = None  # weighted by the MACs that the sites feed
    energy_mj: dict[str, float] | None = None  # by precision; None where none is claimed
    energy_plain_mj: dict[str, float] | None = None  # of the same model without spikes
    lm_head_mj: dict[str, float] | None = None  # beside both: the paper leaves it out
    note: str = ""  # why something is missing


@dataclass(frozen=True)
class Generated:
    """What was written, and what it took."""

    ids: list[int]
    tokens_read: int
    tokens_through: int  # the model: what costs are divided by
    seconds: float
    cost: TokenCost

    @property
    def tokens_per_second(self) -> float:
        """Tokens written in a second, the time for reading included."""
        return len(self.ids) / self.seconds


class TextStream:
    """Hands on text as soon as no later token can change it, by the protocol of transformers' streamers."""

    def __init__(self, text_of: Callable[[Sequence[int]], str], write: Callable[[str], None]) -> None:
        self.text_of = text_of
        self.write = write
        self._ids: list[int] = []
        self._said = ""
        self._started = False

    def put(self, value: Tensor) -> None:
        """Tokens of the only row; the first that come are those that were read."""
        if not self._started:
            self._started = True
            return
        self._ids += value.flatten().tolist()
        text = self.text_of(self._ids)
        open_end = min(len(text) - len(text.rstrip(UNFINISHED)), 3)
        self._say(text[: len(text) - open_end])

    def end(self) -> None:
        """Nothing more comes."""
        self._say(self.text_of(self._ids))

    def _say(self, text: str) -> None:
        if len(text) > len(self._said) and text.startswith(self._said):
            self.write(text[len(self._said) :])
            self._said = text


@torch.no_grad()
def generate(model: Any, ids: Sequence[int], how: Decoding, end: int | None = None, stream: Any = None) -> Generated:
    """Let a model go on from the tokens of a text, or write what belongs to them, and count what it takes.

    Args:
        model: A decoder or an encoder-decoder of transformers, spiking or plain, in eval mode.
        ids: The tokens that it reads.
        how: How it writes.
        end: The token that ends a text, for a model that names none itself.
        stream: Gets the tokens as they are written (transformers' `BaseStreamer`); not with beams.
    """
    read = torch.tensor([list(ids)], device=model.device)
    steps = 0

    def step(*_: Any) -> None:
        nonlocal steps
        steps += 1

    spikes = fires(model)
    meter = FiringMeter(model) if spikes else None
    if how.sample:
        torch.manual_seed(how.seed)
    hook = model.register_forward_hook(step)  # one call for each token that is looked for, whatever the beams become
    try:
        with meter or nullcontext():
            started = time.perf_counter()
            inputs = {"input_ids": read, "attention_mask": torch.ones_like(read)}
            out = model.generate(**inputs, generation_config=_settings(model, how, end), streamer=stream)[0].tolist()
            seconds = time.perf_counter() - started
    finally:
        hook.remove()
    pairs = model.config.is_encoder_decoder
    written = out[1:] if pairs else out[len(ids) :]  # behind the token that a decoder starts with, or the prompt
    through = len(ids) + (steps if pairs else steps - 1)
    return Generated(written, len(ids), through, seconds, _cost(model, meter, len(ids), steps, how.beams, through))


def fires(model: Any) -> bool:
    """Whether a model has neurons whose levels are spikes."""
    conversion = conversion_of(model.config)
    return conversion is not None and bool(conversion.neuron) and conversion.neuron.target not in rounding_neurons()


def _settings(model: Any, how: Decoding, end: int | None) -> Any:
    """The model's own generation_config with what was asked for; what does not apply is left out of it."""
    settings = copy.deepcopy(model.generation_config)
    if settings.eos_token_id is None:
        settings.eos_token_id = end
    if settings.pad_token_id is None:
        ends = settings.eos_token_id
        settings.pad_token_id = ends[0] if isinstance(ends, list) else ends
    sampling: dict[str, Any] = dict.fromkeys(("temperature", "top_k", "top_p"))
    if how.sample:  # transformers would draw from the 50 likeliest tokens where nobody says anything
        own = {name: getattr(settings, name) for name in sampling}
        asked = {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
        default = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
        sampling = {name: _first(asked[name], own[name], default[name]) for name in sampling}
    wanted = {**how.further, **sampling, "do_sample": how.sample, "num_beams": how.beams, "use_cache": how.cache}
    wanted |= {"max_new_tokens": how.most, "max_length": None}
    if settings.min_length or wanted.get("min_length"):  # a text of fewer tokens was asked for
        wanted["min_length"] = min(wanted.get("min_length") or settings.min_length, how.most)
    if how.beams == 1:
        wanted |= {"early_stopping": None, "length_penalty": None}
    for name, value in wanted.items():
        setattr(settings, name, value)
    return settings


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _cost(model: Any, meter: FiringMeter | None, read: int, steps: int, beams: int, through: int) -> TokenCost:
    events = sum(meter.events().values()) / through if meter else None
    terms, note = _matmuls(model.config, read, steps, beams, meter is not None)
    if terms is None:
        return TokenCost(spikes=events, note=note)

    def a_token(energy: Mapping[str, float]) -> dict[str, float]:
        return {precision: value / through for precision, value in energy.items()}

    plain = a_token(energies(terms))
    size, vocab = model.config.hidden_size, model.config.vocab_size
    head = a_token({kind: energy_mj(lm_head_terms(size, vocab, steps, beams), kind) for kind in PICOJOULE})  # type: ignore[arg-type]
    cost = TokenCost(energy_mj=plain, energy_plain_mj=plain, lm_head_mj=head)
    conversion = conversion_of(model.config)
    if meter is None:
        low_bit = conversion is not None and (conversion.neuron or conversion.weights)
        note = "a low-bit model neither spikes nor multiplies floats: no energy is claimed for it"
        return replace(cost, energy_mj=None, note=note) if low_bit else cost
    assert conversion is not None
    rates, T = meter.by_site(), conversion.T
    energy = a_token({kind: spiking_energy_mj(terms, rates, T, kind) for kind in PICOJOULE})  # type: ignore[arg-type]
    return replace(cost, spikes=events, firing_rate=mean_rate(terms, rates), energy_mj=energy)


def _matmuls(config: Any, read: int, steps: int, beams: int, spiking: bool) -> tuple[list[Term] | None, str]:
    """The matmuls of reading and writing without the LM head, for all beams; None of a model whose are not known."""
    stacks, length = ARCHITECTURES.get(config.model_type), read + steps - 1
    try:
        if stacks in (BART, MARIAN):
            return encoder_decoder_terms(config.to_dict(), read, steps, beams), ""
        if stacks not in ((GPT2,), (LLAMA,)):
            return None, f"the matmuls of a {config.model_type} are not known: no energy"
        window = getattr(config, "sliding_window", None)
        if window is not None and window < length:
            return (
                None,
                f"attention looks back {window} tokens only, which the model of energy does not know: no energy",
            )
        terms = decoder_terms(config.to_dict(), length, spiking)
    except ConfigError as error:
        return None, f"{error.what}: no energy"
    return [replace(term, macs=beams * term.macs) for term in terms], ""
