"""What a student learns from its teacher: losses, the modules that add them up, answers kept on disk.

May import what training may; the modules of training, but not its stages.
"""
