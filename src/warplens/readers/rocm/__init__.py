"""AMD profiles: `rocprofv3` reads its JSON, `rocpd` its SQLite database, `rocprof_v1` JSON of rocprof before that.

`sqlite_file` recognizes such a database and calls the reader.
"""
