"""What several formats use: the bytes of a file, SQLite, protocol buffers, columns of events."""
