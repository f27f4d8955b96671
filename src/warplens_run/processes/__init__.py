"""Processes of ours: modules of Warplens that run beside the one that starts them, as `python -m module`.

`child` is a process as its parent sees it, `parent` the same channel from within the process. A message is a line; what
it means is known where it is sent and where it is read.
"""
