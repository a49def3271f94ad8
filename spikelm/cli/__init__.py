"""The commands spikelm-run, -report, -energy, -audit, -export, -verify and -harness, and what they print.

May import every room; no room imports it.
"""
