"""A neuron, a task and a system for spikelm."""
