"""Nsight Systems' SQLite export: `reader` reads a file, `schema` names its tables and codes.

`sqlite_file` recognizes such a database and calls the reader. `report` has `nsys` export a binary report.
"""
