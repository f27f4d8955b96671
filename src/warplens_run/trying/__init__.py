"""Fixes switched on and off in a user's own program, in turns of some steps: what they win is the difference.

It runs inside the program, on nothing but Python and PyTorch.
"""
