"""Tokenizers, trained or read, and tokenised text, kept on disk as flat arrays.

It imports `sources` and the rooms below data, and never `batches`.
"""
