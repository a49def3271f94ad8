"""What spikelm-energy prints: a backbone's matmuls term by term, or the card of a model that is watched.

May import what `cli` may. Only `print_card` and `subject` load torch: `--help` and the terms are there at once.
"""
