"""The store as one static site under runs/report/: it opens from disk and asks no network for anything."""
