"""From a run's config to a trained and measured model: stages, Lightning modules, the fit and its checkpoints.

May import export, measure, models, spiking, neurons, data, store, config and below; knows nothing of runs and rivals.
"""
