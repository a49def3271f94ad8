"""ELMo: a bidirectional language model of LSTMs, frozen under a task (Peters et al., NAACL 2018; docs/plain_rivals.md).

May import what rivals may.
"""
