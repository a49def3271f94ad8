"""BERTSUMABS: a BERT that reads sentences and a new decoder (Liu and Lapata, EMNLP 2019; docs/paper/plain_rivals.md).

May import what rivals may.
"""
