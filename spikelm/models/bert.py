"""BERT and encoders like it, of any size from a config, with neurons where the config asks for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertConfig

from spikelm.catalog.checkpoint_files import backbone_folder
from spikelm.catalog.kinds import kind_of
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.convert import ConvertConfig
from spikelm.config.settings.schema import Config
from spikelm.errors import CheckpointError
from spikelm.models.architecture import encoder_of
from spikelm.spiking import spikify, spiking_class
from spikelm.spiking.conversion import ENTRY
from spikelm.spiking.load import apply_transform_act


def bert_config(backbone: BackboneConfig, vocab: int, num_labels: int = 2) -> BertConfig:
    """transformers' config of a BERT or of an architecture of its sizes; hidden_act is the FFN's."""
    pad = 0  # of every tokenizer that is trained here
    sizes = {
        "vocab_size": vocab,
        "hidden_size": backbone.hidden,
        "num_hidden_layers": backbone.layers,
        "num_attention_heads": backbone.heads,
        "intermediate_size": backbone.intermediate,
        "max_position_embeddings": backbone.positions + kind_of(backbone).unused_positions(pad),
        "hidden_act": backbone.activation,
        "hidden_dropout_prob": backbone.dropout,
        "attention_probs_dropout_prob": backbone.attention_dropout,
        "initializer_range": backbone.init,
        "pad_token_id": pad,
        "num_labels": num_labels,
    }
    settings: BertConfig = encoder_of(backbone).config(**{**sizes, **backbone.options})
    return settings


def build_pretraining_model(config: Config, vocab: int) -> nn.Module:
    """A randomly initialised encoder with the heads of its pretraining."""
    model = encoder_of(config.backbone).pretrainer(bert_config(config.backbone, vocab))
    with torch.no_grad():
        embeddings = model.base_model.embeddings
        for table in (embeddings.position_embeddings, embeddings.token_type_embeddings):
            table.weight.mul_(config.backbone.position_init / config.backbone.init)
    if config.backbone.transform_activation:
        model.config.transform_act = config.backbone.transform_activation
        apply_transform_act(model)
    return spiking_if_asked(model, config)


def load_pretraining(config: Config, folder: Path, plain: bool) -> nn.Module:
    """A saved plain pretraining model: as it is, or with what the config asks for."""
    model = load(encoder_of(config.backbone).pretrainer, folder, config)
    apply_transform_act(model)
    return model if plain else spiking_if_asked(model, config)


def build_classifier(config: Config, pretrained: Path | None) -> nn.Module:
    """A pretrained encoder with a new head (one output for regression).

    `pretrained` is the model of a pretrained or general run, amplitudes included; without it the backbone's own
    weights are taken, and a spiking model sets its amplitudes on the first batch.
    """
    folder = pretrained or backbone_folder(config.backbone)
    cls = encoder_of(config.backbone).classifier
    settings = {"num_labels": num_labels(config), "num_hidden_layers": config.depth}
    if config.converted and pretrained is not None and time_steps_of(pretrained) == config.time_steps:
        return load(spiking_class(cls), folder, config, **settings)
    return spiking_if_asked(load(cls, folder, config, **settings), config)


def num_labels(config: Config) -> int:
    """Outputs of the task's head."""
    return len(config.task.labels) if config.task.kind == "classification" else 1


def time_steps_of(folder: Path) -> int | None:
    """T of a saved spiking model, None of a plain one."""
    saved = json.loads((folder / "config.json").read_text()).get("spikelm")
    return int(saved["T"]) if saved else None


def spiking_if_asked(model: Any, config: Config) -> nn.Module:
    """The plain model with the config's neurons, weights and operators, or as it is where there are none."""
    saved = model.config.__dict__.pop(ENTRY, None)  # of a model with another T, whose amplitudes are not taken over
    if saved and saved.get("rotation", "none") != "none":
        raise CheckpointError(
            "these weights are rotated, and fit their own neurons alone",
            "the same T and neuron, or convert.rotation=none",
        )
    if not config.converted:
        return model
    convert = config.convert if config.only_converts else ConvertConfig()
    return spikify(
        model,
        config.neuron,
        config.time_steps,
        weights=config.weights,
        variant=config.variant,
        attention=config.attention,
        norm=config.norm,
        rotation=convert.rotation,  # type: ignore[arg-type]
        rotation_seed=convert.rotation_seed,
    )


def load(cls: Any, folder: Path, config: Config, **settings: Any) -> Any:
    """A saved model with the backbone's dropout, which is the run's own choice."""
    size = config.backbone
    dropout = {"hidden_dropout_prob": size.dropout, "attention_probs_dropout_prob": size.attention_dropout}
    try:
        return cls.from_pretrained(folder, **{**dropout, **settings})
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the pretrained model in {folder} cannot be loaded: {error}") from error


def parameter_count(model: nn.Module) -> int:
    """Parameters, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())
