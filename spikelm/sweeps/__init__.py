"""Many runs by one command: files of jobs, arrays of Slurm jobs, and the record and summary of every sweep.

It may import runs and what lies below; Hydra calls it, the command line reads its failures.
"""
