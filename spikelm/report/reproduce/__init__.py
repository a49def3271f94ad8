"""Running what tables and figures still need, following it, and keeping the results as a reference.

It may import all of report but the page, and sweeps.
"""
