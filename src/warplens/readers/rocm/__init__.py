"""AMD profiles: `rocprofv3` reads its JSON, `rocpd` its SQLite database."""
