"""Runs a plan: each unit alone, its kernels compared with the trace's, timed and metered, in a process that may die.

`supervisor` never loads PyTorch; `worker` is the process that does. What is measured, and how, is in `unit_run`.
"""
