"""Nsight Systems' SQLite export: `reader` reads a file, `schema` names its tables and codes."""
