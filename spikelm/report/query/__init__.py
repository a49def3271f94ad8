"""Which runs a report is about: selections, sweeps, lists, and the command that makes a run again.

The other rooms of report import it; it imports none of them.
"""
