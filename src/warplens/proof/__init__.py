"""Findings put to the test: a before and an after for each, run on a GPU, and what was measured on the finding.

`experiments` plans them from a trace, on any machine; `applying` gives findings their proofs. What runs them on a GPU
host is `warplens_run.proof`.
"""
