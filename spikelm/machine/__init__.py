"""The computer a run is on: its cores, its disk, its energy meters, its signals, its libraries and their versions.

May import errors alone.
"""
