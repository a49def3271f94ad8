"""Statements of the paper as checks on results, and how they are shown.

It may import report.query, report.tables and report.figures.
"""
