"""Every real profile at hand opens, and every verb shows it: the shared ones where they are, and the samples."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import ROOT, SHARED, distinct
from warplens.cli import main
from warplens.ranks.file_heads import is_execution_trace

FOLDERS = ("proton", "jax", "ncu", "execution_trace", "public")
SHARED_FILES = [path for folder in FOLDERS for path in sorted((SHARED / "traces" / folder).glob("*")) if path.is_file()]
SAMPLE_FILES = [
    path
    for folder in ("proton", "jax", "ncu", "execution_trace")
    for path in sorted((ROOT / "samples" / folder).iterdir())
    if path.suffix not in (".md", ".py")
]
PROFILES = distinct(path for path in (*SAMPLE_FILES, *SHARED_FILES) if not is_execution_trace(path))
ALWAYS = (
    "intra.chrome_trace.gz", "sampled.zip", "tree_python.hatchet.gz", "scopes_3.9.hatchet_msgpack.gz", "regions.zip",
    "ncu_raw.csv.gz", "ncu_details.csv.gz", "transformer_step.xplane.pb.gz", "mlp_train.json.gz",
)  # fmt: skip
"""One profile of each kind; every verb on the others is left to `make nightly`."""
TRACE_ONLY = ("advise", "gantt")


@cache
def opened(path: Path) -> Any:
    return warplens.open(path, cache=False)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.name in ALWAYS else pytest.mark.nightly) for path in PROFILES],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_every_verb_shows_it(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = opened(path)
    name, out = str(path), tmp_path / "out"
    has_time = bool(len(profile.table("kernels"))) and bool(profile.table("kernels").frame["total_us"].sum())
    verbs = [
        [
            "report",
            name,
            "-o",
            f"{out}.html",
            "-o",
            f"{out}.xlsx",
            "-o",
            f"{out}.json",
            "-o",
            f"{out}.md",
            "-o",
            f"{out}/",
        ],
        ["show", name, "quality"],
        ["show", name, "kernels", "--json"],
        ["tree", name],
        ["tree", name, "--json"],
        ["sql", name, "select count(*) as n from kernels"],
        ["diff", name, name],
    ]
    if has_time:
        verbs.append(["flamegraph", name, "-o", f"{out}.svg", "-o", f"{out}.folded"])
    if isinstance(profile, warplens.Profile):
        verbs.append(["advise", name])
        if has_time:
            verbs.append(["gantt", name, "-o", f"{out}2.html"])
    for words in verbs:
        assert main(words) == 0, (words, capsys.readouterr().err)
        capsys.readouterr()


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_time_is_the_same_by_kernel_by_category_and_by_path(path: Path) -> None:
    profile = opened(path)
    kernels, categories = profile.table("kernels").frame, profile.table("kernel_categories").frame
    whole = round(1000 * float(kernels["total_us"].sum()))
    assert round(1000 * float(categories["total_us"].sum())) == whole
    for context in ("python", "module", "op", "annotation", "full"):
        tree = profile.tree(context)
        tree.self_check()
        assert int(tree.total_ns[0]) == whole, context
        assert int(tree.total_count[0]) == int(kernels["count"].sum()) or not whole


@pytest.mark.parametrize("verb", TRACE_ONLY)
def test_verbs_about_time_say_what_is_missing(verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(ROOT / "samples" / "proton" / "tree_shadow.hatchet.gz")
    words = [verb, path, *(["-o", str(tmp_path / "g.html")] if verb == "gantt" else [])]
    assert main(words) == 1
    assert "without a timeline" in capsys.readouterr().err
