"""What a kind of backbone is made of in torch: its classes, its batches, and the functions that build its stages.

The record beside spikelm/catalog/kinds.py, which says what is known without torch and names the function that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from spikelm.catalog import kinds
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.schema import Config
from spikelm.data.batches.blocks import BlockBatches
from spikelm.errors import ConfigError

#: from a run's config and the directories of the runs it needs, by role, to its Stage (spikelm/training/stage.py)
StageBuilder = Callable[[Config, Mapping[str, Path], Console], Any]


@dataclass(frozen=True)
class Architecture:
    """None stands for what an architecture does not have."""

    config: Any = None  # classes of transformers, or ours
    encoder: Any = None
    pretrainer: Any = None  # with the heads of pretraining
    classifier: Any = None
    generator: Any = None  # writes texts
    batches: Callable[..., BlockBatches] | None = None  # of pretraining
    pretraining: StageBuilder | None = None
    general: StageBuilder | None = None
    fine_tuning: StageBuilder | None = None
    text_pairs: StageBuilder | None = None
    language_modelling: StageBuilder | None = None

    @property
    def classes(self) -> tuple[Any, ...]:
        """The model classes that a checkpoint may be of."""
        return tuple(cls for cls in (self.encoder, self.pretrainer, self.classifier, self.generator) if cls is not None)


def architecture_of(backbone: BackboneConfig) -> Architecture:
    """The architecture of a backbone."""
    architecture: Architecture = kinds.architecture(backbone.kind)
    return architecture


def encoder_of(backbone: BackboneConfig) -> Architecture:
    """The architecture of a backbone that has BERT's sizes: an encoder, and no encoder-decoder."""
    architecture = architecture_of(backbone)
    if architecture.config is None or architecture.generator is not None:
        raise ConfigError(
            f"this task needs a BERT; backbone={backbone.name} is a {backbone.kind}", "backbone=bert_mini"
        )
    return architecture
