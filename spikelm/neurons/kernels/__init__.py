"""Functions that neurons and quantisers are made of: forward and closed-form backward over all time steps at once.

Plain torch: they import nothing of spikelm but each other.
"""
