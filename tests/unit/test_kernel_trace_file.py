"""A trace comes back from its file as it was; a damaged file is one clear error."""

from __future__ import annotations

import dataclasses
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kernels import bias_gelu, histogram, matmul, planted_race, trace_cases  # noqa: E402
from warplens_lab.tracing import TABLES, KernelTrace, load, save, trace  # noqa: E402
from warplens_lab.tracing.file import ARRAYS, HEADER  # noqa: E402
from warplens_run.base.errors import FormatError  # noqa: E402


@pytest.fixture(scope="module")
def recorded() -> KernelTrace:
    with trace(values=True) as tracing:
        matmul.launch(*matmul.inputs())
        histogram.launch(*histogram.inputs())
        bias_gelu.launch(*bias_gelu.inputs())
        trace_cases.to_float(torch.ones(16).to(torch.float8_e5m2))
        planted_race.launch_sum()
    return tracing.trace


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.tobytes() == right.tobytes() and left.shape == right.shape
    if dataclasses.is_dataclass(left):
        fields = dataclasses.fields(left)
        return type(left) is type(right) and all(same(getattr(left, f.name), getattr(right, f.name)) for f in fields)
    if isinstance(left, tuple):
        return isinstance(right, tuple) and len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and type(left) is type(right)


def test_what_is_saved_is_loaded(recorded: KernelTrace, tmp_path: Path) -> None:
    path = tmp_path / "kernels.trace"
    save(recorded, path)
    again = load(path)
    assert same(again, recorded)
    for table in TABLES.values():
        assert table(again).to_dicts() == table(recorded).to_dicts()
    assert [file.name for file in tmp_path.iterdir()] == ["kernels.trace"]


def test_regular_accesses_take_little_room(tmp_path: Path) -> None:
    with trace() as tracing:
        matmul.launch(*matmul.inputs(64, 64, 64))
    save(tracing.trace, tmp_path / "small.trace")
    lanes = sum(row.lanes for row in tracing.launches[0].accesses)
    assert (tmp_path / "small.trace").stat().st_size < lanes / 4


def test_the_header_is_json_and_nothing_is_pickled(recorded: KernelTrace, tmp_path: Path) -> None:
    save(recorded, tmp_path / "x")
    with zipfile.ZipFile(tmp_path / "x") as archive:
        assert archive.namelist() == [HEADER, ARRAYS]
        header = json.loads(archive.read(HEADER))
    assert (header["format"], header["version"]) == ("warplens kernel trace", 1)
    assert header["trace"]["launches"][0]["patterns"][0]["strides"] is not None


def rewritten(path: Path, change: Any) -> Path:
    with zipfile.ZipFile(path) as archive:
        header, numbers = json.loads(archive.read(HEADER)), archive.read(ARRAYS)
    change(header)
    target = path.with_name("changed")
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        archive.writestr(ARRAYS, numbers)
    return target


DAMAGES = {
    "another version": (lambda h: h.update(version=7), "version 7"),
    "another format": (lambda h: h.update(format="something"), "not a trace of kernels"),
    "no launches": (lambda h: h["trace"].pop("launches"), "launches"),
    "a word for a number": (lambda h: h["trace"]["launches"][0].update(line="ten"), "line"),
    "an array outside": (lambda h: h["trace"]["launches"][0]["events"]["op"].update(at=1 << 40), "outside the file"),
    "a negative place": (lambda h: h["trace"]["launches"][0]["events"]["op"].update(at=-8), "outside the file"),
    "an object array": (lambda h: h["trace"]["launches"][0]["events"]["op"].update(dtype="|O"), "an array of type"),
    "an odd dtype": (lambda h: h["trace"]["launches"][0]["events"]["op"].update(dtype="nothing"), "not a whole trace"),
    "a short column": (lambda h: h["trace"]["launches"][0]["events"]["op"].update(shape=[3]), "another length"),
    "a missing statement": (lambda h: h["trace"]["launches"][0].update(sites=[]), "statement"),
    "a missing tensor": (lambda h: h["trace"]["launches"][0].update(tensors=[]), "tensor"),
    "a missing pattern": (lambda h: h["trace"]["launches"][0].update(patterns=[]), "pattern"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_wrong_header_is_one_clear_error(recorded: KernelTrace, tmp_path: Path, name: str) -> None:
    change, text = DAMAGES[name]
    save(recorded, tmp_path / "whole")
    with pytest.raises(FormatError, match=text):
        load(rewritten(tmp_path / "whole", change))


def test_damaged_bytes_are_one_clear_error(recorded: KernelTrace, tmp_path: Path) -> None:
    save(recorded, tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    generator = random.Random(0)
    path = tmp_path / "damaged"
    refused = 0
    for number in range(60):
        data = bytearray(whole[: generator.randrange(len(whole))] if number % 2 else whole)
        for _ in range(3):
            if data and not number % 2:
                data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        path.write_bytes(data)
        try:
            assert same(load(path), recorded)  # a changed byte may be one that says nothing
        except FormatError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 50


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no zip")
    with pytest.raises(FormatError, match="not a whole trace"):
        load(tmp_path / "text")
    with pytest.raises(FormatError, match="No such file"):
        load(tmp_path / "absent")
    with pytest.raises(FormatError):
        load(tmp_path)
