"""spikelm: an experiment runner for spiking language models."""

__version__ = "0.1.0"
