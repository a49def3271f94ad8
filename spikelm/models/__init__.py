"""Backbones, plain and spiking."""
