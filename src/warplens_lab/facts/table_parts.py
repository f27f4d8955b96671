"""Columns and cells that the tables of a kernel's facts share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

import polars as pl

from warplens.model.table import Column
from warplens_lab.facts.records import KernelFacts, SourcePlace

Row = dict[str, Any]
KEY: Final = (
    Column("target", "what it was compiled for", "", pl.String),
    Column("config", "constants and options", "", pl.String),
)
LINE: Final = (
    Column("file", "file of the line", "", pl.String),
    Column("line", "line of the source", "", pl.Int64),
)


def key_cells(facts: KernelFacts) -> Row:
    return {"target": facts.target, "config": facts.config}


def place_cells(place: SourcePlace) -> Row:
    return {"file": PurePath(place.file).name, "line": place.line}


def shape_text(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))
