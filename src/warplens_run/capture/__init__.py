"""Profiling sessions and scopes. Runs where the program runs: needs Python, and what the program uses."""

from __future__ import annotations

from warplens_run.capture.scopes import enter_scope, exit_scope, scope
from warplens_run.capture.session import activate, deactivate, finalize, profile, start, step

__all__ = ["activate", "deactivate", "enter_scope", "exit_scope", "finalize", "profile", "scope", "start", "step"]
