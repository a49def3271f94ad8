"""Where text comes from: the micro-world, files or the hub; rows, text pairs and documents, and what tells them apart.

It imports the micro-world and the rooms below data, and never `tokens` or `batches`.
"""
