"""Students and teachers: the plain model that is imitated, and the spiking one made from its weights."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertForSequenceClassification, BertModel

from spikelm.catalog.checkpoint_files import backbone_folder
from spikelm.catalog.kinds import named
from spikelm.config.schema import Config
from spikelm.errors import CheckpointError
from spikelm.models.bert import bert_config, encoder_kind, load, num_labels, spiking_if_asked
from spikelm.neurons import Neuron
from spikelm.spiking import spiking_class
from spikelm.spiking.conversion import conversion_of
from spikelm.weights import quantized

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def teacher_encoder(config: Config, folder: Path | None) -> Any:
    """The plain encoder of a general distillation: of the ANN's pretrained run, else the backbone's own weights."""
    return load(BertModel, folder or backbone_folder(config.backbone), config, **NO_DROPOUT)


def build_student(config: Config, folder: Path | None, vocab: int) -> nn.Module:
    """The teacher's encoder with neurons, or a random one of another kind. No dropout: what is imitated has none."""
    kind = encoder_kind(config.backbone)
    if kind.neuron == "spiking":
        return spiking_if_asked(named(kind.encoder)(bert_config(config.backbone, vocab)), config)
    return spiking_if_asked(teacher_encoder(config, folder), config)


def load_teacher(config: Config, folder: Path) -> Any:
    """The fine-tuned ANN of a task."""
    return load(
        BertForSequenceClassification, folder, config, num_labels=num_labels(config), num_hidden_layers=config.depth
    )


def load_student(config: Config, folder: Path) -> Any:
    """A student as it was saved, with its own neurons, weights and variant."""
    settings = {"num_labels": num_labels(config), "num_hidden_layers": config.depth}
    return load(spiking_class(BertForSequenceClassification), folder, config, **settings)


@torch.no_grad()
def succeed(config: Config, folder: Path) -> nn.Module:
    """The config's student with the latent weights of the one before it, and its neurons' values if they are alike."""
    before = load_student(config, folder)
    settings = copy.deepcopy(before.config)
    settings._attn_implementation = None  # that of its variant
    model: Any = spiking_if_asked(BertForSequenceClassification(settings), config)
    alike = _neuron_class(before.config) == _neuron_class(model.config)
    own = set() if alike else {name for name, module in model.named_modules() if isinstance(module, Neuron)}
    taken = {
        name: value
        for name, value in before.state_dict().items()
        if name.rpartition(".")[0] not in own and ".quantizer." not in name
    }
    found = model.load_state_dict(taken, strict=False)
    if found.unexpected_keys:
        raise CheckpointError(f"{folder} has {found.unexpected_keys[0]}, which its successor has not")
    for module in quantized(model):
        module.quantizer.start(module.weight)
    return model


def _neuron_class(settings: Any) -> str:
    conversion = conversion_of(settings)
    return conversion.neuron.target if conversion else ""


def convert(config: Config, folder: Path) -> nn.Module:
    """The fine-tuned ANN itself with neurons, head included."""
    return spiking_if_asked(load_teacher(config, folder), config)


@torch.no_grad()
def take_head(student: Any, teacher: Any) -> None:
    """Pooler and classifier of the teacher, whose hidden states the student imitates."""
    # Not strict: the neuron of a quantised pooler is the student's own.
    student.bert.pooler.load_state_dict(teacher.bert.pooler.state_dict(), strict=False)
    student.classifier.load_state_dict(teacher.classifier.state_dict())
