"""What is known of each architecture without torch: its options, sizes, parameters, matmuls and metrics.

May import errors, rules and machine.
"""
