"""Mistakes that leave results plausible are found at their line in kernels as libraries write them; the same kernels
without the mistake are silent, notes included.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from warplens_lab.tracing import TABLES, trace  # noqa: E402

FOLDER = Path(__file__).parent.parent / "kernels" / "mistakes"
PLANT = re.compile(r" *# plant\((\w+)\): (.+?) ->(?: (.*))?$")
FIND = re.compile(r" *# find\(([\w, ]+)\)$")
MISTAKES = [
    # kind, file, run
    ("short_loop", "products", "run_matmul"),
    ("short_loop", "rows", "run_long_softmax"),
    ("short_loop", "attention", "run_attention"),
    ("wrong_step", "products", "run_matmul"),
    ("wrong_step", "products", "run_conv1d"),
    ("wrong_step", "attention", "run_attention"),
    ("no_mask", "products", "run_matmul"),
    ("no_mask", "rows", "run_rotary"),
    ("no_mask", "rows", "run_quantise"),
    ("no_other", "rows", "run_layer_norm"),
    ("no_other", "rows", "run_cross_entropy"),
    ("no_other", "attention", "run_attention"),
    ("wrong_width", "descriptors", "run_descriptor_matmul"),
    ("wrong_width", "descriptors", "run_descriptor_scale"),
    ("wrong_width", "descriptors", "run_descriptor_sum"),
    ("tile_left", "products", "run_persistent_matmul"),
    ("tile_left", "rows", "run_rotary"),
    ("tile_left", "rows", "run_quantise"),
    ("two_writers", "products", "run_split_k"),
    ("two_writers", "rows", "run_layer_norm_weights"),
    ("two_writers", "rows", "run_chunked_scan"),
    ("narrow_sum", "products", "run_matmul_half"),
    ("narrow_sum", "products", "run_conv1d_bfloat"),
    ("narrow_sum", "rows", "run_bias_grad"),
]
CLEAN = sorted({(file, run) for _, file, run in MISTAKES} | {("attention", "run_causal_attention")})


def loaded(file: str, folder: Path, kind: str | None = None) -> tuple[ModuleType, set[int]]:
    """A module of kernels with the mistakes of one kind made in it, and the lines at which they should be found."""
    lines = (FOLDER / f"{file}.py").read_text().splitlines()
    finds = set()
    for at, line in enumerate(lines):
        plant, find = PLANT.match(line), FIND.match(line)
        code = next(later for later in range(at + 1, len(lines) + 1) if later == len(lines) or "# " not in lines[later])
        if plant and plant[1] == kind:
            assert plant[2] in lines[code]
            lines[code] = lines[code].replace(plant[2], plant[3] or "", 1)
        if find and kind in find[1].split(", "):
            finds.add(code + 1)
    path = folder / f"{file}_{kind}.py"
    path.write_text("\n".join(lines))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, finds


def faults_of(module: ModuleType, run: str, **options: Any) -> tuple[list[dict[str, Any]], bool]:
    """What is reported, and whether the result is right."""
    with trace("count", **options) as tracing:
        result, expected = getattr(module, run)()
    is_right = torch.allclose(result.double(), expected, rtol=2e-2, atol=2e-2)
    return TABLES["kernel_faults"](tracing.trace).to_dicts(), is_right


def shadow_of(run: str) -> dict[str, Any]:
    return {"shadow": "fp64"} if run in {name for kind, _, name in MISTAKES if kind == "narrow_sum"} else {}


FIRST_OF_KIND = {kind: (kind, *rest) for kind, *rest in reversed(MISTAKES)}


@pytest.mark.parametrize(
    ("kind", "file", "run"),
    [pytest.param(*each, marks=[] if FIRST_OF_KIND[each[0]] == each else pytest.mark.nightly) for each in MISTAKES],
)
def test_a_mistake_is_found_at_its_line(kind: str, file: str, run: str, tmp_path: Path) -> None:
    module, lines = loaded(file, tmp_path, kind)
    rows, _ = faults_of(module, run, **shadow_of(run))
    found = {row["line"] for row in rows} | {row["other_line"] for row in rows}
    assert found & lines, rows
    assert all(row["remedy"] for row in rows)


@pytest.mark.parametrize(("file", "run"), CLEAN)
def test_the_kernel_without_the_mistake_is_silent(file: str, run: str, tmp_path: Path) -> None:
    module, _ = loaded(file, tmp_path)
    rows, is_right = faults_of(module, run, **shadow_of(run))
    assert is_right
    assert rows == []
