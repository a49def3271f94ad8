"""SpikingFormer for text: BERT with a membrane residual (Zhou et al., 2023; docs/paper/spiking_rivals.md).

May import what rivals may.
"""
