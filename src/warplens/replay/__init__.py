"""Replay: every kernel of a trace alone, in Python or C++, with its time and energy.

`plan_file` and `result_file` are the two documents: what to run, and what came of it. `running` runs a plan with
PyTorch, `cpp` writes it as a C++ project, `meter` reads energy. Nothing here needs more than Python and PyTorch, so
that it works on a GPU host; plans are made elsewhere (see `warplens.planning`).
"""
