"""What is kept on disk between runs: parsed traces, digests of ranks, finished tables.

`place` knows the folder, whose it is and how large it may become; `entries` writes and reads what is in it, whole or
not at all. What an entry means is known where it is made.
"""
