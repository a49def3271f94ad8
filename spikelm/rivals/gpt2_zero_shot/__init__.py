"""GPT-2 that summarises without training, by a prompt (Radford et al., 2019; docs/paper/plain_rivals.md).

May import what rivals may.
"""
