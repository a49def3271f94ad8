"""Linears, dropout and attention that keep less for the backward: packed spikes and bits instead of floats.

They may import the neurons' kernels.
"""
