"""One run from its config to its result: its identity, the runs it needs, its plan, its names, its tracker.

May import rivals, training and all below them; knows nothing of tables, pages or commands.
"""
