"""Verbs that run a program: profile, workload, energy."""
