"""Students and teachers: the plain model that is imitated, and the models that a student can start from."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from spikelm.catalog.checkpoint_files import backbone_folder
from spikelm.catalog.kinds import kind_of
from spikelm.config.settings.schema import Config
from spikelm.errors import CheckpointError
from spikelm.models.architecture import Architecture, encoder_of
from spikelm.models.bert import bert_config, load, num_labels, spiking_if_asked
from spikelm.neurons import Neuron
from spikelm.spiking import spiking_class
from spikelm.spiking.conversion import conversion_of
from spikelm.weights import quantized

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def load_encoder_teacher(config: Config, folder: Path | None) -> Any:
    """The plain encoder of a general distillation: of the ANN's pretrained run, else the backbone's own weights."""
    return load(_teacher(config).encoder, folder or backbone_folder(config.backbone), config, **NO_DROPOUT)


def build_encoder_student(config: Config, folder: Path | None, vocab: int) -> nn.Module:
    """The teacher's encoder with neurons, or a random one of another kind. No dropout: what is imitated has none."""
    if kind_of(config.backbone).neuron == "spiking":
        return spiking_if_asked(encoder_of(config.backbone).encoder(bert_config(config.backbone, vocab)), config)
    return spiking_if_asked(load_encoder_teacher(config, folder), config)


def load_converted(config: Config, folder: Path) -> Any:
    """The converted encoder of a general distillation, with its amplitudes."""
    return load(spiking_class(_teacher(config).encoder), folder, config, **NO_DROPOUT)


def load_teacher(config: Config, folder: Path) -> Any:
    """The fine-tuned ANN of a task."""
    return load(_teacher(config).classifier, folder, config, **_head(config))


def load_previous(config: Config, folder: Path) -> Any:
    """The student before this one, or its conversion, as it was saved, with its own neurons, weights and variant."""
    return load(spiking_class(encoder_of(config.backbone).classifier), folder, config, **_head(config))


def student_from_teacher(config: Config, folder: Path) -> nn.Module:
    """The fine-tuned ANN itself with neurons, head included."""
    return spiking_if_asked(load_teacher(config, folder), config)


@torch.no_grad()
def student_from_previous(config: Config, folder: Path) -> nn.Module:
    """The config's student with the latent weights of the one before it, and its neurons' values if they are alike."""
    before = load_previous(config, folder)
    settings = copy.deepcopy(before.config)
    settings._attn_implementation = None  # that of its variant
    model: Any = spiking_if_asked(encoder_of(config.backbone).classifier(settings), config)
    alike = _neuron_class(before.config) == _neuron_class(model.config)
    own = set() if alike else {name for name, module in model.named_modules() if isinstance(module, Neuron)}
    taken = {
        name: value
        for name, value in before.state_dict().items()
        if name.rpartition(".")[0] not in own and ".quantizer." not in name
    }
    unexpected = model.load_state_dict(taken, strict=False).unexpected_keys
    if unexpected:
        raise CheckpointError(f"{folder} has {unexpected[0]}, which its successor has not")
    for module in quantized(model):
        module.quantizer.start(module.weight)
    return model


def _neuron_class(settings: Any) -> str:
    conversion = conversion_of(settings)
    return conversion.neuron.target if conversion else ""


@torch.no_grad()
def take_head(student: Any, teacher: Any) -> None:
    """Pooler (where there is one) and classifier of the teacher, whose hidden states the student imitates."""
    if (pooler := student.base_model.pooler) is not None:
        # Not strict: the neuron of a quantised pooler is the student's own.
        pooler.load_state_dict(teacher.base_model.pooler.state_dict(), strict=False)
    student.classifier.load_state_dict(teacher.classifier.state_dict())


def _teacher(config: Config) -> Architecture:
    """The architecture of the teacher: the student's own, or BERT's where that has no plain form."""
    size = config.backbone
    return encoder_of(replace(size, kind="bert") if kind_of(size).neuron == "spiking" else size)


def _head(config: Config) -> dict[str, int]:
    return {"num_labels": num_labels(config), "num_hidden_layers": config.depth}
