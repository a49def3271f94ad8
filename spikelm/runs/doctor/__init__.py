"""Whether this machine is ready for the runs of a scale: what is there, what is missing, and what to do about it.

May import what runs may.
"""
