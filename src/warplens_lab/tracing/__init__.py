"""Triton kernels watched while the interpreter runs them: every load, store, atomic, reduction and dot.

Importing this needs neither Triton nor PyTorch; making a trace needs both.
"""

from __future__ import annotations

from warplens_lab.compiling.statements import statement_at
from warplens_lab.tracing.file import load, save
from warplens_lab.tracing.interpreter.routing import load_interpreter
from warplens_lab.tracing.records import KernelTrace, TracedLaunch
from warplens_lab.tracing.tables import TABLES
from warplens_lab.tracing.watching.debugging import ProgramDebugger
from warplens_lab.tracing.watching.faults import KernelFault, verb
from warplens_lab.tracing.watching.session import TracedKernel, Tracing, trace, trace_kernel

__all__ = [
    "TABLES",
    "KernelFault",
    "KernelTrace",
    "ProgramDebugger",
    "TracedKernel",
    "TracedLaunch",
    "Tracing",
    "load",
    "load_interpreter",
    "save",
    "statement_at",
    "trace",
    "trace_kernel",
    "verb",
]
