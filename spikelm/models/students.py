"""Students and teachers: the plain model that is imitated, and the spiking one made from its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertForSequenceClassification, BertModel

from spikelm.models.bert import bert_config, load, num_labels, spiking_if_asked
from spikelm.models.kinds import classes_of
from spikelm.models.weights import weights_folder
from spikelm.schema import Config

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def teacher_encoder(config: Config, folder: Path | None) -> Any:
    """The plain encoder of a general distillation: of the ANN's pretrained run, else the backbone's own weights."""
    return load(BertModel, folder or weights_folder(config.backbone.path or ""), config, **NO_DROPOUT)


def build_student(config: Config, folder: Path | None, vocab: int) -> nn.Module:
    """The teacher's encoder with neurons, or a random one of another kind. No dropout: what is imitated has none."""
    if config.backbone.kind == "bert":
        return spiking_if_asked(teacher_encoder(config, folder), config)
    return spiking_if_asked(classes_of(config.backbone).encoder(bert_config(config.backbone, vocab)), config)


def load_teacher(config: Config, folder: Path) -> Any:
    """The fine-tuned ANN of a task."""
    return load(BertForSequenceClassification, folder, config, num_labels=num_labels(config))


def convert(config: Config, folder: Path) -> nn.Module:
    """The fine-tuned ANN itself with neurons, head included."""
    return spiking_if_asked(load_teacher(config, folder), config)


@torch.no_grad()
def take_head(student: Any, teacher: Any) -> None:
    """Pooler and classifier of the teacher, whose hidden states the student imitates."""
    student.bert.pooler.load_state_dict(teacher.bert.pooler.state_dict())
    student.classifier.load_state_dict(teacher.classifier.state_dict())
