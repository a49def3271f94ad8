"""Exported models: `import spikelm.exported` lets transformers' Auto classes load what spikelm-export wrote."""

from __future__ import annotations

from spikelm.exported.model import ExportedBertConfig, ExportedBertForSequenceClassification

__all__ = ["ExportedBertConfig", "ExportedBertForSequenceClassification"]
