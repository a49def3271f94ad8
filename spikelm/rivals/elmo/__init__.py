"""ELMo: a bidirectional language model of LSTMs, frozen under a task (Peters et al., NAACL 2018).

docs/paper/plain_rivals.md says what is as in its paper.

May import what rivals may.
"""
