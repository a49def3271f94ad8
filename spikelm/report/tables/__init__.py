"""Tables of the paper: their YAML, our numbers beside the paper's, and every format they are written in.

It may import report.query.
"""
