"""Backbones from a config: plain Hugging Face models of any size, spiking where the config asks for it, and teachers.

May import spiking, weights, neurons, data, store, config, catalog and below; knows nothing of Lightning.
"""
