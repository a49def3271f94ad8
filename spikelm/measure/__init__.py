"""What is measured of a model: metrics, firing rates, energy, the spike audit.

It knows models and spikes, not tasks; it may import models, spiking and what is below them.
"""
