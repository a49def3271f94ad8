"""SpikeGPT: a language model of RWKV blocks with spikes between them (Zhu et al., 2023; docs/paper/spiking_rivals.md).

May import what rivals may.
"""
