"""What is measured of a model: metrics, energy, firing rates, the spike audit, dynamical isometry.

Import from the modules: `energy` is pure Python and must stay importable without torch.
"""
