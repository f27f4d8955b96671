"""Single kernels of a plan as text: a script in Python, or a project in C++ against libtorch.

Plans are made by `warplens.planning`, and run by `warplens_run.replay`.
"""
