"""Checks on the fake device, run in a process of their own: `python checks.py GROUP ..` prints one JSON line per check.

A check runs something inside `watched` and says which lines of this project waited for the device; what torch refuses
(a tensor on the wrong device) is its error.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers.masking_utils
from fake_autocast import forget
from fake_device import DEVICE, Watch, batch_on_device, efficient, on_the_device, watched
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import NeuronSpec, QuantizerSpec
from spikelm.data.batches.by_step import Batch
from spikelm.data.batches.mlm_nsp import IGNORED
from spikelm.measure.workload import trained_parameters, training_memory_gb
from spikelm.models.architecture import encoder_of
from spikelm.models.bart import build_seq2seq
from spikelm.models.bert import bert_config, build_pretraining_model, num_labels, spiking_if_asked
from spikelm.models.decoders import build_decoder, plain_decoder
from spikelm.neurons import build_neuron
from spikelm.rivals.spikegpt.rwkv import SpikeGPTForCausalLM
from spikelm.spiking.kv_cache import spike_cache
from spikelm.training.causal import CausalModule
from spikelm.training.decoders import LanguageModule, LanguageStudent
from spikelm.training.distill.students import GeneralModule, ImitatingPretrainModule, StudentModule, Teacher
from spikelm.training.modules import GlueModule, MaskedModule, PretrainModule, StageModule
from spikelm.training.places import with_places
from spikelm.training.seq2seq import Seq2SeqModule, Seq2SeqStudent, Seq2SeqTeacher
from spikelm.weights import build_quantizer
from spikelm.weights.layers import QuantizedLinear

CONF = Path(__file__).parents[2] / "conf"
MODE = FakeTensorMode()  # one for all: constants that the code caches belong to it
ROWS, LENGTH, TARGET, VOCAB = 4, 16, 8, 200
#: transformers looks whether a mask is all ones, once per stack; a fake tensor would hide that it does
transformers.masking_utils.is_tracing = lambda *_: False


@dataclass
class Report:
    """What a check saw."""

    name: str
    error: str = ""
    own: list[str] = field(default_factory=list)  # synchronisations asked for by lines of this project
    others: list[str] = field(default_factory=list)  # by transformers
    account_gb: float = 0.0
    estimate_gb: float = 0.0


def checked(name: str, check: Callable[[FakeTensorMode], Watch]) -> Report:
    """Run a check; an error is reported like a synchronisation."""
    try:
        watch = check(MODE)
    except Exception as error:
        return Report(name, error=f"{type(error).__name__}: {str(error).splitlines()[0]}")
    theirs = [line for line in watch.syncs if "transformers/" in line]
    return Report(name, own=[line for line in watch.syncs if line not in theirs], others=theirs)


def presets(group: str, *without: str) -> list[str]:
    """The names of a config group."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml") if path.stem not in without)


# Neurons, quantisers


def neuron_check(spec: NeuronSpec, T: int) -> Callable[[FakeTensorMode], Watch]:
    def check(mode: FakeTensorMode) -> Watch:
        neuron: Any = build_neuron(spec, T)
        neuron.site = "encoder.layer.0.ffn1_in"
        neuron.fit_to(8)
        on_the_device(neuron, mode)
        with watched(mode) as watch:
            x = torch.randn(T, 2, 3, 8, device=DEVICE, requires_grad=True)
            for ready in (False, True):  # the batch that sets amplitudes, and all that follow
                if hasattr(neuron, "_ready"):
                    neuron._ready = ready
                neuron(x).sum().backward()
            with torch.no_grad():
                neuron.eval()(x)
        return watch

    return check


def neurons_group() -> Iterator[Report]:
    for name in presets("neuron", "ann"):
        spec = load_config([f"neuron={name}"]).neuron
        for T in (1,) if name == "lif_token" else (1, 4):
            yield checked(f"{name} T={T}", neuron_check(spec, T))


def quantiser_check(spec: QuantizerSpec, rows: bool) -> Callable[[FakeTensorMode], Watch]:
    def check(mode: FakeTensorMode) -> Watch:
        linear: Any = nn.Linear(8, 6)
        linear.quantizer = build_quantizer(spec, rows)
        linear.__class__ = QuantizedLinear
        linear.quantizer.prepare(linear.weight)
        on_the_device(linear, mode)
        with watched(mode) as watch:
            linear(torch.randn(4, 8, device=DEVICE)).sum().backward()
            linear.quantizer.start(linear.weight)
        return watch

    return check


def weights_group() -> Iterator[Report]:
    for name in presets("weights", "none"):
        spec = load_config([f"weights={name}"]).weights
        for rows in (False, True):
            yield checked(f"{name} rows={rows}", quantiser_check(spec, rows))


# Training steps


def token_batch(config: Config, rows: int, length: int, vocab: int) -> Batch:
    """A batch of an encoder or a language model, with pads."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, vocab, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    if length < 100:
        mask[0, length // 2 :] = 0
    batch = {"input_ids": ids, "token_type_ids": torch.zeros_like(ids), "attention_mask": mask}
    if config.task.kind == "pretrain":
        labels = torch.where(torch.arange(rows * length).view(rows, length) % 20 < 3, ids, IGNORED)
        return {**batch, "labels": labels, "next_sentence_label": torch.zeros(rows, dtype=torch.long)}
    regression = config.task.kind == "regression"
    return {**batch, "labels": torch.zeros(rows, dtype=torch.float32 if regression else torch.long)}


def pair_batch(rows: int, source: int, target: int) -> Batch:
    """A batch of text pairs."""
    ids, out = (torch.full((rows, length), 5) for length in (source, target))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": out, "labels": out}


def classifier(config: Config, vocab: int) -> Any:
    size = config.backbone
    settings = bert_config(size, vocab, num_labels(config))
    return spiking_if_asked(encoder_of(size).classifier(settings), config)


def plain(config: Config) -> Config:
    """The config of the plain teacher."""
    size = config.backbone
    kind = "bert" if size.kind in ("spikformer", "spikingformer") else size.kind
    options = {} if kind != size.kind else size.options
    backbone = replace(size, kind=kind, options=options)
    return replace(config, neuron=NeuronSpec(), weights=QuantizerSpec(), backbone=backbone)


def encoder_module(config: Config, mode: FakeTensorMode, vocab: int) -> StageModule:
    """The module of an encoder's stage, as spikelm/training/encoders.py builds it from saved runs."""
    training: Any = (config.stage, 10, 0)
    distill = config.distill
    if config.backbone.kind == "rwkv":
        settings: Any = bert_config(config.backbone, vocab)
        return CausalModule(spiking_if_asked(SpikeGPTForCausalLM(settings), config), *training)
    if config.task.kind == "pretrain":
        model = build_pretraining_model(config, vocab)
        if config.converted and distill.pretrain:
            teacher = on_the_device(build_pretraining_model(plain(config), vocab), mode)
            return ImitatingPretrainModule(model, Teacher(teacher, dropout=distill.teacher.dropout), *training)
        return (MaskedModule if config.backbone.kind == "roberta" else PretrainModule)(model, *training)
    if config.task.kind == "general":
        student = spiking_if_asked(encoder_of(config.backbone).encoder(bert_config(config.backbone, vocab)), config)
        other = plain(config)
        teacher = encoder_of(other.backbone).encoder(bert_config(other.backbone, vocab))
        return GeneralModule(student, Teacher(on_the_device(teacher, mode)), distill, *training)
    model = classifier(config, vocab)
    if not (config.distills and distill.imitates):
        return GlueModule(model, config.task, *training)
    teacher = classifier(plain(config), vocab)
    maps = distill.losses.attention > 0
    if maps:
        teacher.set_attn_implementation("eager")
        if config.variant.attention == "real":
            model.set_attn_implementation("eager")
    looked = bool(distill.losses.scores or distill.losses.relations)
    asked = Teacher(on_the_device(teacher, mode), maps, distill.teacher.dropout, projections=looked)
    return StudentModule(model, asked, distill, config.task, *training)


def pair_module(config: Config, mode: FakeTensorMode, vocab: int) -> StageModule:
    """The module of text pairs, as spikelm/training/seq2seq.py builds it from saved runs."""
    model: Any = build_seq2seq(config, vocab)
    training: Any = (config.task, config.stage, 10, 0, None)
    if not (config.distills and config.distill.imitates):
        return Seq2SeqModule(model, *training)
    teacher: Any = build_seq2seq(plain(config), vocab)
    if config.distill.losses.attention:
        model.set_attn_implementation("eager")
        teacher.set_attn_implementation("eager")
    asked = Seq2SeqTeacher(on_the_device(teacher, mode), config.distill)
    return Seq2SeqStudent(model, *training, teacher=asked, settings=config.distill)


def language_module(config: Config, mode: FakeTensorMode, vocab: int) -> StageModule:
    """The module of a decoder, as spikelm/training/decoders.py builds it from text and saved runs."""
    model, training = build_decoder(config, vocab, 0), (config, 10, (), config.stage)
    if not (config.distills and config.distill.imitates):
        return LanguageModule(model, *training)
    teacher = on_the_device(build_decoder(plain_decoder(config), vocab, 0), mode)
    return LanguageStudent(model, *training, teacher=teacher, settings=config.distill)


def module_and_batch(
    config: Config, mode: FakeTensorMode, sizes: tuple[int, int, int], vocab: int
) -> tuple[StageModule, Batch]:
    """The config's module on the device, and a batch on the CPU as it comes to the module."""
    rows, length, target = sizes
    pairs = config.task.kind == "seq2seq"
    build = {"seq2seq": pair_module, "lm": language_module}.get(config.task.kind, encoder_module)
    with torch.device("meta"):
        module = build(config, mode, vocab)
    on_the_device(module.model, mode).train()
    batch = pair_batch(rows, length, target) if pairs else token_batch(config, rows, length, vocab)
    return module, batch


def training_step(module: Any, batch: Batch, mode: FakeTensorMode) -> Watch:
    """One step of two parts: forward and backward of each, clipping, update."""
    backward = SimpleNamespace(backward=lambda loss, optimizer: loss.backward())
    module._trainer = SimpleNamespace(strategy=backward, global_step=0, training=True, world_size=1)
    module._device = torch.device(DEVICE)
    module.micro_batch = ROWS // 2
    step = module.on_before_batch_transfer(batch, 0)
    assert len(step["parts"]) == 2
    with watched(mode) as watch:
        optimizer = module.configure_optimizers()["optimizer"]
        module.optimizers = lambda use_pl_optimizer: optimizer
        module.training_step(batch_on_device(step), 0).backward()
        module.configure_gradient_clipping(optimizer, 1.0)
        optimizer.step()
    return watch


def step_check(*overrides: str) -> Callable[[FakeTensorMode], Watch]:
    config = load_config(["scale=smoke", "trainer.accelerator=cpu", *overrides])
    config = replace(config, backbone=replace(config.backbone, path=None, layers=1))

    def check(mode: FakeTensorMode) -> Watch:
        module, batch = module_and_batch(config, mode, (ROWS, LENGTH, TARGET), VOCAB)
        return training_step(module, batch, mode)

    return check


STEPS: dict[str, tuple[str, ...]] = {
    "pretraining, BERT": ("task=pretrain", "system=bert"),
    "pretraining, T=1": ("task=pretrain", "system=spikelm_t1"),
    "pretraining, T=4": ("task=pretrain", "system=spikelm_t4"),
    "pretraining, learnable amplitudes": ("task=pretrain", "system=spikelm_learnable"),
    "pretraining, PSN": ("task=pretrain", "system=psn_bert"),
    "pretraining, RoBERTa": ("task=pretrain", "backbone=roberta_tiny", "neuron=bispike", "T=4"),
    "pretraining, BiPFT": ("task=pretrain", "system=bipft"),
    "pretraining, SpikingFormer": ("task=pretrain", "system=spikingformer_t4"),
    "pretraining, SpikeGPT": ("task=pretrain", "system=spikegpt"),
    "fine-tuning, BERT": ("task=glue/mrpc", "system=bert"),
    "fine-tuning, T=4": ("task=glue/mrpc", "system=spikelm_t4"),
    "fine-tuning, regression": ("task=glue/stsb", "system=spikelm_t4"),
    "general distillation": ("task=general_distill", "system=spikelm_t4"),
    "general distillation, SpikeBERT": ("task=general_distill", "system=spikebert"),
    "distillation, SpikeBERT": ("task=glue/sst2", "system=spikebert"),
    "distillation, full": ("task=glue/mrpc", "system=spikelm_t4", "distill=full"),
    "distillation, logits": ("task=glue/mrpc", "system=spikelm_t4", "distill=logits"),
    "distillation, noise and other rows": (
        "task=glue/mrpc",
        "system=spikelm_t4",
        "distill=logits",
        "distill.rows.noise=0.2",
        "distill.rows.other_tasks=8",
    ),
    **{
        f"low bits, {name}": ("task=glue/mrpc", f"system={name}")
        for name in ("q2bert", "ternarybert", "bibert", "bipft", "binarybert_w1a2", "bit", "spikelm_1bit")
    },
    "BART": ("task=sum/xsum", "system=bert"),
    "BART student, T=1": ("task=sum/xsum", "system=lif_bart_t1"),
    "BART student, T=4": ("task=sum/xsum", "system=spikelm_t4"),
    "mBART student, T=4": ("task=mt/wmt16_enro", "system=spikelm_t4"),
}


def steps_group() -> Iterator[Report]:
    for name, overrides in STEPS.items():
        yield checked(name, step_check(*overrides))


def attention_check(variant: str, implementation: str) -> Callable[[FakeTensorMode], Watch]:
    config = load_config(["scale=smoke", "task=glue/mrpc", "neuron=elastic", "T=1", f"variant.attention={variant}"])
    config = replace(config, distill=replace(config.distill, name="none"))

    def check(mode: FakeTensorMode) -> Watch:
        with torch.device("meta"):
            model = classifier(config, VOCAB)
        if variant == "real":
            model.set_attn_implementation(implementation)
        on_the_device(model, mode).train()
        batch = token_batch(config, ROWS, LENGTH, VOCAB)
        with watched(mode) as watch:
            inputs = batch_on_device({name: batch[name] for name in ("input_ids", "attention_mask")})
            model(**inputs).logits.sum().backward()
        return watch

    return check


def attention_group() -> Iterator[Report]:
    for variant in ("real", "quantized", "boolean", "rank1"):
        for implementation in ("sdpa", "eager") if variant == "real" else ("",):
            yield checked(f"{variant} {implementation}".strip(), attention_check(variant, implementation))


# Generation


def generation_check(
    T: int, system: str = "spikelm_t4", kept: torch.dtype = torch.uint8
) -> Callable[[FakeTensorMode], Watch]:
    """Tokens one by one with the cache, beams reordered after each, as generate() does between its own decisions."""
    config = load_config(["scale=smoke", "task=sum/xsum", f"system={system}", f"T={T}"])

    def check(mode: FakeTensorMode) -> Watch:
        with torch.device("meta"):
            model: Any = build_seq2seq(config, VOCAB)
        on_the_device(model, mode).eval()
        with watched(mode) as watch, torch.no_grad():
            ids = torch.ones(ROWS, LENGTH, dtype=torch.long, device=DEVICE)
            encoded = model.get_encoder()(ids)
            cache: Any = spike_cache(model.config, T)
            for _ in range(3):
                word = torch.ones(ROWS, 1, dtype=torch.long, device=DEVICE)
                model(encoder_outputs=encoded, decoder_input_ids=word, past_key_values=cache, use_cache=True)
                cache.reorder_cache(torch.zeros(ROWS, dtype=torch.long, device=DEVICE))
            packed = [store.data.dtype for layer in cache.self_attention_cache.layers for store in layer.stores]
            assert set(packed) == {kept}, "spikes are packed, numbers kept in a byte"
        return watch

    return check


def generation_group() -> Iterator[Report]:
    for T in (1, 4):
        yield checked(f"T={T}", generation_check(T))
    yield checked("LIF", generation_check(1, "lif_bart_t1"))
    yield checked("residual code", generation_check(1, "spikelm_residual_d2", torch.int8))


# What must not pass


class Reads(GlueModule):
    def label_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        loss = super().label_loss(logits, batch)
        return loss if float(loss.detach()) > 0 else -loss


class Selects(GlueModule):
    def label_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        kept = batch["labels"] >= 0
        return super().label_loss(logits[kept], {**batch, "labels": batch["labels"][kept]})


class Copies(GlueModule):
    def label_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return super().label_loss(logits, batch) * torch.tensor(2.0).to(logits.device)


class Elsewhere(GlueModule):
    def label_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return super().label_loss(logits, batch) + torch.ones(ROWS).sum(0, keepdim=True) * logits.sum(0)


def broken_group() -> Iterator[Report]:
    config = load_config(["scale=smoke", "task=glue/mrpc", "system=spikelm_t1"])
    for cls in (GlueModule, Reads, Selects, Copies, Elsewhere):

        def check(mode: FakeTensorMode, cls: Any = cls) -> Watch:
            with torch.device("meta"):
                module = cls(classifier(config, VOCAB), config.task, config.stage, 10, 0)
            on_the_device(module.model, mode).train()
            return training_step(module, token_batch(config, ROWS, LENGTH, VOCAB), mode)

        yield checked(cls.__name__, check)


# Memory

PAPER = {
    "pretrain": (64, "BERT-base"),
    "sum/cnn_dm": (8, "BART-base"),
    "mt/wmt16_enro": (4, "mBART-large"),
}


COMMON = ("scale=paper", "trainer.accelerator=cpu", "trainer.precision=32-true", "backbone.path=null")


def memory_report(task: str, system: str, *settings: str, rows: int | None = None) -> Report:
    """The peak of a step at the paper's sizes, against the estimate."""
    usual, title = PAPER[task]
    rows = rows or usual
    config = load_config([*COMMON, f"task={task}", f"system={system}", *settings])
    plain_name = "plain" if system == "bert" else f"T={config.time_steps}"
    shown = [setting.rpartition(".")[2] for setting in settings]
    name = " ".join([title, plain_name, *shown, *([f"rows={rows}"] if rows != usual else [])])
    return memory_of(name, config, rows)


def memory_of(name: str, config: Config, rows: int) -> Report:
    """The peak of a step whose gradients are added to earlier ones, against the estimate."""
    mode, size, task_config = MODE, config.backbone, config.task
    length = task_config.source_length if task_config.kind == "seq2seq" else config.stage.max_length
    module, batch = module_and_batch(config, mode, (rows, length, task_config.target_length), size.vocab)
    if config.trainer.activation_checkpointing:
        module.model.gradient_checkpointing_enable({"use_reentrant": False})
    half = torch.autocast(DEVICE, torch.bfloat16) if config.trainer.precision == "bf16-mixed" else nullcontext()
    batch = with_places(batch, module.counted)
    teachers = getattr(module, "_teacher", [getattr(module, "teacher", None)])
    models = [module.model, *(getattr(teacher, "model", teacher) for teacher in teachers if teacher is not None)]
    with watched(mode) as watch, efficient():
        for model in models:
            watch._count([*model.parameters(), *model.buffers()])
        optimizer: Any = module.configure_optimizers()["optimizer"]
        for parameter in module.model.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        optimizer.step()
        on_device = batch_on_device(batch)
        with half:
            loss: Any = module.step_loss(on_device)
        forget()
        loss.backward()
    parameters = trained_parameters(config) or 0
    return Report(name, account_gb=watch.peak / 1e9, estimate_gb=training_memory_gb(config, parameters, rows))


def memory_group(*settings: str) -> Iterator[Report]:
    for task in PAPER:
        for system in ("bert", "lif_bart_t1" if task == "sum/cnn_dm" else "spikelm_t1", "spikelm_t4"):
            yield memory_report(task, system, *settings)


CODES = {
    "residual code": ("neuron=residual",),
    "a learned step": ("neuron=levels",),
    "two bytes": ("neuron=phase",),
    "a number without bound": ("neuron=dynamic",),
}


def codes_group() -> Iterator[Report]:
    """Neurons whose output is a whole number on a step: one byte, one and the value, two, or floats."""
    for name, words in CODES.items():
        report = memory_report("pretrain", "spikelm_t1", *words, rows=16)
        yield replace(report, name=f"{report.name}, {name}")


#: the widths of SmolLM2-135M, whose logits are the largest part of a step, and some of its layers
SMOLLM2 = (
    *("backbone=llama_mini", "backbone.layers=8", "backbone.hidden=576", "backbone.heads=9", "backbone.vocab=49152"),
    *("backbone.intermediate=1536", "backbone.positions=2048", "backbone.options.key_value_heads=3"),
)
GPT2 = ("backbone=gpt2", "backbone.layers=6")
DECODERS = {
    "Llama plain": ((*SMOLLM2, "neuron=ann", "finetune.steps=1"), 8),
    "Llama T=1": ((*SMOLLM2, "neuron=bispike", "T=1"), 8),
    "Llama T=4": ((*SMOLLM2, "neuron=bispike", "T=4"), 4),
    "Llama T=4, its student": ((*SMOLLM2, "neuron=bispike", "T=4", "distill=lm"), 4),
    "Llama residual code, its student": ((*SMOLLM2, "neuron=residual", "neuron.steps=4", "distill=lm"), 8),
    "GPT-2 plain": ((*GPT2, "neuron=ann", "finetune.steps=1"), 8),
    "GPT-2 T=4": ((*GPT2, "neuron=bispike", "T=4"), 4),
    "GPT-2 residual code, its student": ((*GPT2, "neuron=residual", "distill=lm"), 4),
}


def decoders_group(*settings: str) -> Iterator[Report]:
    for name, (words, rows) in DECODERS.items():
        config = load_config([*COMMON, "task=lm/embedded", "finetune.max_length=512", *words, *settings])
        yield memory_of(name, config, rows)


def elsewhere_group() -> Iterator[Report]:
    """Sizes that the estimate's arithmetic was not read off."""
    again = "trainer.activation_checkpointing=true"
    yield memory_report("pretrain", "spikelm_t4", rows=8)
    yield memory_report("pretrain", "spikelm_t4", "T=2")
    yield memory_report("pretrain", "spikelm_t4", "T=8")
    yield memory_report("pretrain", "spikelm_t4", "pretrain.max_length=512", rows=16)
    yield memory_report("sum/cnn_dm", "spikelm_t4", "task.source_length=256")
    yield memory_report("sum/cnn_dm", "spikelm_t4", "T=2", "distill=none")
    yield memory_report("sum/cnn_dm", "spikelm_t4", again, rows=16)
    yield memory_report("mt/wmt16_enro", "spikelm_t4", rows=1)
    yield memory_report("mt/wmt16_enro", "spikelm_t4", again, rows=1)


GROUPS: dict[str, Callable[[], Iterator[Report]]] = {
    "neurons": neurons_group,
    "weights": weights_group,
    "attention": attention_group,
    "steps": steps_group,
    "generation": generation_group,
    "broken": broken_group,
    "memory": memory_group,
    "memory checkpointing": lambda: memory_group("trainer.activation_checkpointing=true"),
    "memory codes": codes_group,
    "memory decoders": decoders_group,
    "memory decoders again": lambda: decoders_group("trainer.activation_checkpointing=true"),
    "memory decoders bf16": lambda: decoders_group("trainer.precision=bf16-mixed"),
    "memory elsewhere": elsewhere_group,
    "memory bf16": lambda: memory_group("trainer.precision=bf16-mixed"),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for group in sys.argv[1:]:
        for report in GROUPS[group]():
            print(json.dumps({"group": group, **asdict(report)}), flush=True)
