"""Text as a model reads it: rows and documents (sources), token ids (tokens), batches by step (batches).

It imports the rooms below it: store, config, catalog, machine and errors; nothing here knows a model.
"""
