"""One launch while it runs: memory, accesses, faults, and the session around it."""
