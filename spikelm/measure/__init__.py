"""What is measured of a model: metrics, energy, firing rates, the spike audit, dynamical isometry.

May import models, spiking, neurons, config, catalog and below; `workload` is importable without torch.
"""
