"""A profile beside the facts: time, rooflines, stalls, and the time at stake."""
