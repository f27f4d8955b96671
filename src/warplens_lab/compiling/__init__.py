"""Compiling a user's kernel in a child process: loading and importing its file, signatures, targets, the cache.

`compiling.compile_many` is the way in; `launching.launches` notes what a script launches. compile_worker and
launch_worker run in the children; records holds what passes between them and this process.
"""
