"""Whether a device computes what the CPU computes: neurons, quantisers, models, caches, ranks, memory and speed.

May import what training may.
"""
