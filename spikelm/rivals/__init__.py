"""The systems that the paper compares with and that need a model of their own: one folder per system.

May import training and everything below it, but one rival's folder never another's; what two share lies beside them.
"""
