"""The settings of a run as dataclasses: each field says its rule and the runs it decides, checks stand beside them.

May import catalog, rules and errors; nothing here composes, reads files or knows Hydra.
"""
