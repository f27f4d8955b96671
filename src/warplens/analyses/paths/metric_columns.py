"""Metrics of a tree as columns of a table."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from warplens.analyses.trees.rates import amount_unit
from warplens.model.table import Column
from warplens.model.tree import EXCLUSIVE


def metric_columns(metrics: Iterable[str], taken: Iterable[str], meaning: str = "{metric}") -> dict[str, Column]:
    """A column for each metric, named as it is unless the table, or another metric, has that name.

    >>> [column.name for column in metric_columns(["tokens", "percent", "loss (exc)"], ["percent"]).values()]
    ['tokens', 'metric_percent', 'loss']
    >>> [column.name for column in metric_columns([""], []).values()]
    ['metric_']
    """
    used = set(taken)
    columns = {}
    for metric in metrics:
        plain = name = metric.removesuffix(EXCLUSIVE)
        while not name or name in used:
            name = f"metric_{name}"
        used.add(name)
        columns[metric] = Column(name, meaning.format(metric=plain), amount_unit(plain), pl.Float64)
    return columns
