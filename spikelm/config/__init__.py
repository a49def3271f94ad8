"""What a run is asked to do: composed by Hydra from conf/, typed, checked, recorded and shown.

May import catalog, machine, rules and errors; never torch, so that a mistake is answered at once.
"""
