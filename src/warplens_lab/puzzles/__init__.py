"""Exercises in Triton: `catalogue` lists them, `child.check_answers` checks files in a process of its own.

checking, running and limits run an answer on every case; comparing, explaining and faults say what is wrong with it;
kernels/ holds the files that learners start from, and the solutions.
"""
