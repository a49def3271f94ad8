"""The commands spikelm-run, -report, -energy, -audit, -export and -verify, and what they print.

May import every room; no room imports it.
"""
