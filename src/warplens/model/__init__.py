"""The model: what a profile is once read, and what analyses and outputs pass to each other."""
