"""Time by call path: the call tree, and the metrics derived from it."""
