"""Runs proof plans on GPU hosts: nothing here needs more than Python, and PyTorch in the processes that it starts."""
