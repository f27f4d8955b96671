"""An event simulation of a training job on many ranks, written as PyTorch's profiler writes them.

spec (what to simulate) → base (blocks of a real rank) → program (what a rank does in a step) → simulate (times, by
rendezvous) → write (Kineto JSON) and truth (what was planted, and what it costs).
"""
