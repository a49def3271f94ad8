"""Runs and models of ours as lm-evaluation-harness scores them; may import what `cli` may.

Nothing but `scored_model` imports the harness (the extra `lm-eval`), and only the harness and `harness_command` import
`scored_model`.
"""
