"""What the store holds, for people: single results, tables, figures, claims, the page, W&B's dashboard.

It reads what store wrote and may import runs, sweeps and what lies below; only the command line imports it.
"""
