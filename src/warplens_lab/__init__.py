"""Kernels in Triton and CUDA C++ without a GPU: compiled, interpreted, explained; layouts of tiles; puzzles.

`checking` compiles and suggests, `tracing` runs kernels in the interpreter. compiling/ and cuda/ start the compilers in
child processes; facts/ reads what they made; measured/ joins profiles with it; suggesting/ has the rules; code/ makes
the page of source and machine code. `warplens.lab` names what the other packages take from here.
"""
