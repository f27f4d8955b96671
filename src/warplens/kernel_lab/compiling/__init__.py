"""A kernel compiled, in a child process, for GPUs that are not here."""
