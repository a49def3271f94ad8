"""Checks of a backbone against the table of kinds: its tasks, neuron, weights, decoder and options."""

from __future__ import annotations

from spikelm.catalog.checkpoint_files import DROPOUT, pinned, read_dropout
from spikelm.catalog.kinds import ALL, LABELLED, LM, UNLABELLED, Kind, kind_of
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError

#: kind of task -> what names such tasks, and one of them
TASKS = {
    "pretrain": ("pretrain", "pretrain"),
    "general": ("general_distill", "general_distill"),
    "seq2seq": ("sum/*", "sum/xsum"),
    "lm": ("lm/*", "lm/embedded"),
    "classification": ("glue/*", "glue/sst2"),
    "regression": ("glue/*", "glue/sst2"),
}


def check_backbone(config: Config) -> None:
    """Raise a ConfigError that names the key, its value and what is valid."""
    size, kind = config.backbone, kind_of(config.backbone)
    if kind.tasks != ALL or config.task.kind == LM:
        _check_task(config, kind)
    if size.decoder_layers is not None and not kind.decoder:
        raise ConfigError(f"backbone.decoder_layers={size.decoder_layers} is not valid; a {kind.title} has no decoder")
    labelled = config.task.kind in (*LABELLED, *UNLABELLED)
    if (
        labelled
        and config.distill.pretrain
        and config.converted
        and "pretrain" in kind.tasks
        and not kind.next_sentence
    ):
        raise ConfigError(f"distill.pretrain imitates the next sentence's answers, which a {kind.title} does not give")
    if not kind.options:
        if size.options:
            raise ConfigError(f"backbone.options.{next(iter(size.options))} is not known to backbone.kind={size.kind}")
        return
    _check_neuron(config, kind)
    if size.path and not kind.weights:
        raise ConfigError(
            f"backbone.path={size.path} is not valid; {kind.title} (backbone.kind={size.kind}) starts from scratch",
            "choose a backbone without a path, such as scale=mini",
        )
    for name, value in size.options.items():
        if name not in kind.options:
            raise ConfigError(f"unknown key backbone.options.{name}; valid: {', '.join(kind.options)}")
        rule = kind.options[name]
        if not rule.allows(value) or value == []:
            raise ConfigError(f"backbone.options.{name}={value} is not valid; valid: {rule}")
    heads = size.options.get("num_attention_heads", size.heads)
    if size.hidden % heads:
        raise ConfigError(f"backbone.options.num_attention_heads={heads} does not divide backbone.hidden={size.hidden}")
    if kind.causal:
        _check_dropout(size, kind)
    if size.kind in MORE:
        MORE[size.kind](config)


def _check_dropout(size: BackboneConfig, kind: Kind) -> None:
    """A decoder's given weights keep their own dropout; what is said beside them would be ignored.

    Left as a backbone has it where its file says nothing, nothing was said.
    """
    names = DROPOUT[size.kind]
    brought = read_dropout(size.path, size.kind) if size.path and not pinned(size.path) else {}
    for key in ("dropout", "attention_dropout"):
        stated = getattr(size, key)
        if stated == getattr(BackboneConfig, key):
            continue
        if key not in names:
            if stated:
                raise ConfigError(f"backbone.{key}={stated} is not valid; a {kind.title} has no such dropout")
        elif size.path and stated != brought.get(key):
            theirs = names[key][0]
            raise ConfigError(
                f"backbone.{key}={stated} would not be applied: weights that are given keep the {theirs} of their "
                f"config.json{f', {brought[key]}' if brought else ''}",
                f"leave it out, or backbone.path=A_COPY whose config.json says {theirs}",
            )


def _check_task(config: Config, kind: Kind) -> None:
    if config.task.kind in kind.tasks and not config.task.name.startswith("mt/"):
        return
    valid = dict.fromkeys(TASKS[task] for task in kind.tasks)
    raise ConfigError(
        f"task={config.task.name} is not valid for {kind.title} (backbone.kind={config.backbone.kind}); "
        f"valid: {', '.join(pattern for pattern, _ in valid)}",
        f"task={list(valid)[-1][1]}",
    )


def _check_neuron(config: Config, kind: Kind) -> None:
    told = f"{kind.title} (backbone.kind={config.backbone.kind})"
    if kind.neuron == "plain" and config.spiking:
        raise ConfigError(f"neuron={config.neuron.name} is not valid; {told} is a plain model", "neuron=ann")
    if kind.neuron == "spiking" and not config.fires:
        raise ConfigError(
            f"neuron={config.neuron.name} is not valid; {told} has no plain form: its neurons spike",
            "choose another neuron",
        )
    if config.quantized and kind.neuron != "any":
        raise ConfigError(
            f"weights={config.weights.name} is not valid; {told} is not quantised", "weights=none, or a BERT"
        )
    settings = config.distill
    # Only a BERT can be made of its teacher's weights, or of another student's.
    starts = ("pretrained", "general") if "general" in kind.tasks else ("pretrained",)
    unknown = {
        "pretrain": settings.pretrain,
        f"start.weights={settings.start.weights}": settings.start.weights not in starts,
    }
    unknown["teacher.model=previous"] = settings.teacher.model == "previous"
    if kind.neuron == "spiking" and (names := [name for name, on in unknown.items() if on]):
        raise ConfigError(f"distill.{names[0]} is for a BERT, not for {told}", f"distill.start.weights={starts[-1]}")


def _check_causal(config: Config) -> None:
    """The time of a neuron over tokens is the text."""
    if config.time_steps != 1:
        raise ConfigError(f"T={config.time_steps} is not valid; the time of backbone.kind=rwkv is its tokens", "T=1")


def _check_student(config: Config) -> None:
    """A Spikformer starts from its general distillation, and without a mask imitates states that no cache keeps."""
    settings = config.distill
    if config.task.kind in LABELLED and settings.start.weights != "general":
        raise ConfigError(
            f"distill.start.weights={settings.start.weights}: backbone.kind=spikformer is not pretrained",
            "distill=spikebert",
        )
    unknown = {
        "start.head=teacher": settings.start.head == "teacher",
        "start.frozen_embeddings": settings.start.frozen_embeddings,
        "losses.attention": settings.losses.attention,
        "losses.scores": settings.losses.scores,
        "losses.relations": settings.losses.relations,
    }
    if names := [name for name, on in unknown.items() if on]:
        raise ConfigError(
            f"distill.{names[0]}: backbone.kind=spikformer has neither the teacher's head nor its attention",
            "distill=spikebert",
        )
    if settings.teacher.cache and not config.backbone.options.get("mask", False):
        raise ConfigError(
            "distill.teacher.cache keeps no states of pads, which are imitated without a mask",
            "distill.teacher.cache=false",
        )


def _check_heads(config: Config) -> None:
    """Several queries may share heads of keys and values; rotary positions turn pairs of values."""
    size, own = config.backbone, config.backbone.options
    if size.heads % own.get("key_value_heads", size.heads):
        raise ConfigError(
            f"backbone.options.key_value_heads={own['key_value_heads']} does not divide backbone.heads={size.heads}"
        )
    if (head := own.get("head_size") or size.hidden // size.heads) % 2:
        raise ConfigError(f"heads of {head} values cannot have rotary positions, which turn pairs", "an even size")


def _check_prompt(config: Config) -> None:
    """A prompt and its answer fit, and nothing is trained between them; GPT-2 spikes as a language model only."""
    if config.task.kind == LM:
        return
    if config.converted:
        changed = f"neuron={config.neuron.name}" if config.spiking else f"weights={config.weights.name}"
        raise ConfigError(
            f"{changed} is not valid; GPT-2 on {config.task.name} is a plain model",
            "neuron=ann weights=none, or task=lm/embedded",
        )
    if config.task.kind != "seq2seq":
        return
    if missing := [name for name in kind_of(config.backbone).options if name not in config.backbone.options]:
        raise ConfigError(
            f"backbone.options.{missing[0]} is not said, which a GPT-2 needs for {config.task.name}",
            "backbone=gpt2_mini backbone.path=FOLDER",
        )
    if config.finetune.steps != 0:
        raise ConfigError(
            f"finetune.steps={config.finetune.steps} is not valid; GPT-2 writes summaries without training",
            "finetune.steps=0 finetune.epochs=null",
        )
    new = config.backbone.options["new_tokens"]
    room = config.backbone.positions - new
    if config.task.source_length > room:
        raise ConfigError(
            f"task.source_length={config.task.source_length} leaves no room for backbone.options.new_tokens={new} "
            f"in backbone.positions={config.backbone.positions}",
            f"task.source_length={room}",
        )


#: what else is checked of a kind
MORE = {"llama": _check_heads, "rwkv": _check_causal, "spikformer": _check_student, "gpt2": _check_prompt}
