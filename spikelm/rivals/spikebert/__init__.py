"""SpikeBERT: a Spikformer distilled from BERT in two stages (Lv et al., 2023; docs/paper/spiking_rivals.md).

May import what rivals may.
"""
