"""Exported models: `import spikelm.export` lets transformers' Auto classes load what spikelm-export wrote."""

from __future__ import annotations

from spikelm.export.exported_model import ExportedBertConfig, ExportedBertForSequenceClassification

__all__ = ["ExportedBertConfig", "ExportedBertForSequenceClassification"]
