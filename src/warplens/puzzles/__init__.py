"""Exercises in Triton: a statement and a starting kernel each, a checker that explains, a reference solution."""
