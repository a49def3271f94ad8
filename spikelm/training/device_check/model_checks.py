"""Whole models: a BERT of two layers and of all its layers, compiled blocks, and a BART that writes from its cache.

A spike that rounding moves over its threshold changes what comes after it, and in a deep network such changes grow: a
BERT-base at T = 4 in single and in double precision, both on the CPU, has gradients with a cosine of 0.86. So gradients
are compared in two layers, and in a whole model only its loss and its firing rates.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.config.compose import load_config
from spikelm.config.settings.running import TrainerConfig
from spikelm.config.settings.schema import Config
from spikelm.models.bart import build_seq2seq
from spikelm.models.bert import build_pretraining_model
from spikelm.neurons.kernels.compiled import can_compile
from spikelm.spiking import neurons
from spikelm.training.device_check.comparison import Check, Measured, NotHereError, checked, firing_rate, relative
from spikelm.training.devices.acceleration import accelerated

VOCAB = 2000
SYSTEMS = {
    "plain": ("neuron=ann",),
    "bi-spike T=1": ("neuron=bispike", "T=1", "k=2"),
    "bi-spike T=4": ("neuron=bispike", "T=4", "k=2"),
}
NO_DROPOUT = ("backbone.dropout=0", "backbone.attention_dropout=0")

#: Two layers: rounding alone gives 1e-7 and 5e-5, one flip in the first layer up to a percent of the gradient.
SHALLOW = {"loss": 1e-3, "gradient": 5e-2, "firing rate": 1e-3}
#: All layers: single against double precision gave 5e-3 and 3e-3 on a CPU, bf16 6e-3 and 2e-2.
DEEP = {"loss": 2e-2, "firing rate": 2e-2}
DEEP_BF16 = {"loss": 2e-2, "firing rate": 5e-2}
#: Logits from the cache against those without: rounding gives 4e-7 and one flip 1e-2 on a CPU; a cache whose spikes are
#: one percent too high, or in the order of other rows or time steps, gives 0.2 to 0.7.
CACHED = 0.1
#: Tokens that greedy search writes otherwise: after a flip a row goes its own way.
WRITTEN = 0.5


@dataclass(frozen=True)
class Sizes:
    """What is built: BERT and BART by name with the overrides of their sizes, and the rows and tokens they read."""

    bert: str
    bart: str
    rows: int
    length: int
    new_tokens: int


@dataclass(frozen=True)
class Step:
    """Loss, gradient (all parameters in one vector) and firing rate of each site of one training step."""

    loss: float
    gradient: Tensor
    rates: dict[str, float] = field(default_factory=dict)


def bert_of(sizes: Sizes, system: str, *overrides: str) -> Config:
    """The config of a BERT that is pretrained on rows of the check's length."""
    stage = (f"pretrain.max_length={sizes.length}", f"pretrain.batch={sizes.rows}")
    named = ("scale=mini", "task=pretrain", f"backbone={sizes.bert}")
    return load_config([*named, *stage, *SYSTEMS[system], *overrides])


def pretraining_batch(rows: int, length: int, vocab: int) -> dict[str, Tensor]:
    """Random tokens, all of them to be predicted, and random next sentences."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, vocab, (rows, length), generator=generator)
    after = torch.randint(0, 2, (rows,), generator=generator)
    return {"input_ids": ids, "labels": ids, "next_sentence_label": after}


def bert_checks(sizes: Sizes, device: torch.device) -> Iterator[Check]:
    """Every system on the device against the reference, in two layers and in all, and in bf16."""
    for system in SYSTEMS:
        yield checked("model", f"{system}, 2 layers", _against_reference(sizes, system, device, SHALLOW, layers=2))
        yield checked("model", f"{system}, all layers", _against_reference(sizes, system, device, DEEP))
        name = f"{system}, all layers, bf16"
        yield checked("model", name, _against_reference(sizes, system, device, DEEP_BF16, bf16=True))


def compiled_model_check(sizes: Sizes, device: torch.device) -> Check:
    """Blocks under trainer.compile=model against the same blocks in eager, on the same device."""

    def compare() -> list[Measured]:
        if not can_compile(device.type):
            raise NotHereError("torch.compile misses something here: spikelm-doctor says what")
        model, batch = _shallow(sizes, "bi-spike T=4").to(device), _on(device, _batch(sizes))
        model.train()(**batch)  # sets the amplitudes, which a graph cannot do
        eager = training_step(model, batch)
        with accelerated(model, TrainerConfig(compile="model")):
            compiled = training_step(model, batch, watched=False)
        return _differences(compiled, eager, SHALLOW)

    return checked("compiled", "blocks, bi-spike T=4", compare)


def cache_check(sizes: Sizes, device: torch.device, T: int) -> Check:
    """A spiking BART that decodes given tokens one by one from its cache of spikes, and all at once without it."""

    def compare() -> list[Measured]:
        torch.manual_seed(0)
        size = (f"backbone={sizes.bart}", "backbone.layers=2", "backbone.decoder_layers=2", *NO_DROPOUT)
        model: Any = build_seq2seq(
            load_config(["scale=mini", "task=sum/xsum", *size, "neuron=bispike", f"T={T}"]), VOCAB
        )
        model.to(device)
        generator = torch.Generator().manual_seed(1)
        source = torch.randint(5, VOCAB, (sizes.rows, sizes.length), generator=generator).to(device)
        target = torch.randint(5, VOCAB, (sizes.rows, sizes.new_tokens), generator=generator).to(device)
        model.train()(input_ids=source, decoder_input_ids=target)
        model.eval()
        with torch.inference_mode():
            whole, one_by_one = decoded(model, source, target)
            written = [_written(model, source, sizes.new_tokens, use_cache=cached) for cached in (True, False)]
        other = 1.0 - float((written[0] == written[1]).double().mean())
        return [
            Measured("logits", relative(one_by_one, whole), CACHED),
            Measured("generated otherwise", other, WRITTEN),
        ]

    return checked("cache", f"bi-spike BART T={T}", compare)


def lively(model: Any) -> None:
    """Draw the linears of all blocks anew, with outputs as large as their inputs.

    As BART starts, its attention adds next to nothing to what passes it by: a wrong cache would not be seen.
    """
    for module in model.base_model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)


def decoded(model: Any, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of a target, computed at once without a cache, and token by token with one."""
    states = model.get_encoder()(input_ids=source)
    whole = model(encoder_outputs=states, decoder_input_ids=target, use_cache=False).logits
    cache, steps = None, []
    for token in target.split(1, dim=1):
        step = model(encoder_outputs=states, decoder_input_ids=token, past_key_values=cache, use_cache=True)
        cache = step.past_key_values
        steps.append(step.logits)
    return whole, torch.cat(steps, dim=1)


def _written(model: Any, source: Tensor, tokens: int, use_cache: bool) -> Tensor:
    """Greedily; no token twice, because a model that was never trained repeats its last one for ever."""
    length = {"max_new_tokens": tokens, "min_new_tokens": tokens}
    search = {"num_beams": 1, "do_sample": False, "no_repeat_ngram_size": 1}
    texts: Tensor = model.generate(source, use_cache=use_cache, **length, **search)
    return texts


def _shallow(sizes: Sizes, system: str) -> Any:
    torch.manual_seed(0)
    return build_pretraining_model(bert_of(sizes, system, "backbone.layers=2", *NO_DROPOUT), VOCAB)


def _batch(sizes: Sizes) -> dict[str, Tensor]:
    return pretraining_batch(sizes.rows, sizes.length, VOCAB)


def _on(device: torch.device, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in batch.items()}


def _against_reference(
    sizes: Sizes,
    system: str,
    device: torch.device,
    limits: dict[str, float],
    bf16: bool = False,
    layers: int | None = None,
) -> Callable[[], list[Measured]]:
    def compare() -> list[Measured]:
        torch.manual_seed(0)
        fewer = (f"backbone.layers={layers}",) if layers else ()
        model = build_pretraining_model(bert_of(sizes, system, *fewer, *NO_DROPOUT), VOCAB)
        reference = training_step(copy.deepcopy(model).double(), _batch(sizes))
        ours = training_step(model.to(device), _on(device, _batch(sizes)), bf16)
        return _differences(ours, reference, limits)

    return compare


def training_step(model: Any, batch: dict[str, Tensor], bf16: bool = False, watched: bool = True) -> Step:
    """One forward and backward pass; the first one sets the amplitudes.

    `watched` neurons tell their firing rates by a hook, which would break the graph of a compiled block.
    """
    rates: dict[str, float] = {}

    def watch(neuron: Any, inputs: Any, spikes: Tensor) -> None:
        rates[neuron.site] = firing_rate(spikes)

    handles = [neuron.register_forward_hook(watch) for neuron in neurons(model)] if watched else []
    model.train().zero_grad(set_to_none=True)
    with torch.autocast(batch["input_ids"].device.type, torch.bfloat16, enabled=bf16):
        loss = model(**batch).loss
    loss.backward()
    for handle in handles:
        handle.remove()
    gradients = [item.grad.detach().double().cpu().flatten() for item in model.parameters() if item.grad is not None]
    return Step(float(loss.detach()), torch.cat(gradients), rates)


def _differences(ours: Step, reference: Step, limits: dict[str, float]) -> list[Measured]:
    numbers = {
        "loss": abs(ours.loss - reference.loss) / abs(reference.loss),
        "gradient": relative(ours.gradient, reference.gradient),
    }
    if ours.rates:
        numbers["firing rate"] = max(abs(rate - reference.rates[site]) for site, rate in ours.rates.items())
    return [Measured(name, value, limits.get(name)) for name, value in numbers.items()]


def model_checks(sizes: Sizes, device: torch.device, time_steps: Sequence[int]) -> Iterator[Check]:
    """All of them, but the compiled one."""
    yield from bert_checks(sizes, device)
    for T in time_steps:
        yield cache_check(sizes, device, T)
