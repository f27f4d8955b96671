"""`warplens explain`: the verb, and the topics it knows."""
