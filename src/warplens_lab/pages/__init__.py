"""The pages of traced launches, compiled kernels and layouts."""

from __future__ import annotations

from typing import Final

ASSETS: Final = "warplens_lab.pages"
"""Whose folder of assets has the pages' scripts and styles."""
