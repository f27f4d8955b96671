"""Triton kernels without a GPU: `checking` compiles and suggests, `tracing` runs kernels in the interpreter.

compiling/ starts the compiler in child processes; facts/ reads what it made; measured/ joins profiles with it;
suggesting/ has the rules; code/ makes the page of source and machine code; config_ranking ranks autotuning configs.
"""
