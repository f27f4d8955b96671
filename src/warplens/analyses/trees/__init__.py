"""Time by call path: `call_tree` builds the tree, `rates` computes the metrics that can be derived from it."""
