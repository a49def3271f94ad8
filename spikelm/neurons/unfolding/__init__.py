"""Neurons with more than three levels, whose output unfolds into several spikes inside one time step.

Plain torch: they may import neurons and kernels above, and what those import.
"""
