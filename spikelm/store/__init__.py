"""What runs leave on disk: the store, the typed result, checksums, hashes, atomic files and metrics.csv.

It may import config, catalog, machine and errors; nothing heavy: no torch, and pydantic only where results are read.
"""
