"""What runs on a GPU host or inside a user's program: recording, workloads, replay, proofs, meters and counters.

Nothing here needs more than Python, and PyTorch, Triton or JAX where the program has them.
"""

__version__ = "0.1.0"
