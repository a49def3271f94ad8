"""What the store holds, for people: single results, tables, lists of runs."""
