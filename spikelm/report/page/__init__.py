"""The store as one static site under runs/report/: it opens from disk and asks no network for anything.

It may import report.query and report.show_result; tables, figures and claims it takes from the files they wrote.
"""
