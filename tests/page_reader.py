"""Reads a page's data back without a browser: an independent hand at the format of outputs/html/pack.py."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from typing import Any

import numpy as np


class PageData:
    def __init__(self, html: str) -> None:
        found = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', html)
        assert found, "the page holds no data"
        whole = gzip.decompress(base64.b64decode(found[1]))
        size = int(whole[:8])
        self.header: dict[str, Any] = json.loads(whole[8 : 8 + size])
        self.bytes = whole[8 + size :]

    def ints(self, spec: dict[str, Any]) -> Any:
        rows, width = spec["rows"], spec["width"]
        planes = np.frombuffer(self.bytes, np.uint8, rows * width, spec["at"]).reshape(width, rows)
        folded = sum((planes[place].astype(object) << (8 * place) for place in range(width)), np.zeros(rows, object))
        values = np.array([(each >> 1) ^ -(each & 1) for each in folded], np.int64)
        return np.cumsum(values) if spec.get("delta") else values

    def column(self, spec: dict[str, Any]) -> list[Any]:
        """A table's column as plain values, None where there is nothing."""
        if spec.get("text"):
            return [None if code < 0 else self.header["texts"][code] for code in self.ints(spec)]
        if spec.get("float"):
            planes = np.frombuffer(self.bytes, np.uint8, 8 * spec["rows"], spec["at"]).reshape(8, spec["rows"])
            numbers = np.ascontiguousarray(planes.T).view("<f8").reshape(-1)
            return [None if np.isnan(each) else float(each) for each in numbers]
        values: list[Any] = (self.ints(spec) / spec.get("scale", 1)).tolist()
        for row in self.ints(spec["nulls"]).tolist() if "nulls" in spec else []:
            values[row] = None
        return [None if each is None else bool(each) for each in values] if spec.get("bool") else values

    def table(self, name: str) -> dict[str, list[Any]]:
        header = next(each for each in self.header["tables"] if each["name"] == name)
        columns = {column["name"]: self.column(column["data"]) for column in header["columns"]}
        for column in header["columns"]:
            if "expected" in column:
                columns[column["name"]] = self.corrected(column, columns)
        return columns

    def corrected(self, column: dict[str, Any], columns: dict[str, list[Any]]) -> list[Any]:
        """A column that is stored as what it differs by from a sum of others."""
        scale = column["data"].get("scale", 1)
        stored = columns[column["name"]]
        sums = [
            sum((columns[name][row] or 0) * factor for name, factor in column["expected"].items())
            for row in range(len(stored))
        ]
        return [
            None if value is None else (round(value * scale) + math.floor(expected * scale + 0.5)) / scale
            for value, expected in zip(stored, sums, strict=True)
        ]

    def scene(self, number: int = 0) -> dict[str, Any]:
        scene: dict[str, Any] = self.header["scenes"][number]
        return scene

    def events(self, name: str, number: int = 0) -> Any:
        return self.ints(self.scene(number)["columns"][name])
