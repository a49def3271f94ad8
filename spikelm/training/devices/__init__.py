"""One training on several devices: ranks, sharding, compiled blocks, and what to do when memory runs out.

May import measure (the estimate of memory), spiking, neurons, config and below; not the rest of training.
"""
