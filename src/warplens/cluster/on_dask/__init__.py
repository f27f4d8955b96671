"""The executor on Dask: connecting to a cluster or starting one, the client's side of a `map`, and the worker's.

Imported only where a cluster is asked for; of it, workers import `task` alone.
"""
