"""AMD profiles: `rocprofv3` reads its JSON, `rocpd` its SQLite database.

`sqlite_file` recognizes such a database and calls the reader.
"""
