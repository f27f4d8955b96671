"""Bundles, plans and results: the records, and the files that they are kept in."""
