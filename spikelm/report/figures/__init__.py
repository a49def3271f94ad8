"""Figures: their YAML, the functions that draw them, one look for all, and curves of any metric.

It may import report.query and report.tables; `draw:` of a figure's YAML names a function of a draw_ module.
"""
