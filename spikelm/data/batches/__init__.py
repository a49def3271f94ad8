"""Batches of tokenised text by step number, so that any step can be made again: rows, text pairs and documents.

It imports `tokens` and the rooms below data; torch is needed from here on.
"""
