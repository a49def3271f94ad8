"""Trained spiking models made ready for inference alone; may import measure, spiking, neurons and below.

`import spikelm.export` lets transformers' Auto classes load what spikelm-export wrote.
"""

from __future__ import annotations

from spikelm.export.exported_model import ExportedBertConfig, ExportedBertForSequenceClassification
from spikelm.export.merged_model import Merged

__all__ = ["ExportedBertConfig", "ExportedBertForSequenceClassification", "Merged"]
