"""Findings put to the test: a before and an after for each, run on a GPU, and what was measured on the finding.

`experiments` plans them from a trace, on any machine; `running` runs a plan on a GPU host, on nothing but Python and
PyTorch; `applying` gives findings their proofs.
"""
