"""A trace as a scene for the page: every launch, values within bounds, the kernel's text only while it is true."""

from __future__ import annotations

import base64
import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kernel_traces import BLOCK, SOURCE, copy_past_the_end, matmul, scaled, trace_of
from warplens_lab.pages.kernel_page import kernel_page_bytes, packed_scene
from warplens_lab.tracing import scene as scenes
from warplens_lab.tracing.records import KernelTrace, Site
from warplens_lab.tracing.scene import kernel_scene
from warplens_lab.tracing.watching.operands import factor_names, operands_of
from warplens_run.base.errors import UsageError


def header_of(packed: bytes) -> dict[str, Any]:
    whole = gzip.decompress(base64.b64decode(packed))
    header: dict[str, Any] = msgspec.json.decode(whole[8 : 8 + int(whole[:8])])
    return header


def test_the_scene_has_the_totals_of_the_trace(tmp_path: Path) -> None:
    launch = matmul(tmp_path)
    (shown,) = kernel_scene(trace_of(launch)).launches
    totals = shown.totals
    assert totals["loaded_bytes"] == launch.loaded_bytes > 0
    assert totals["dot_flop"] == 2 * BLOCK**3 * 18
    assert totals["flop_per_byte"] == pytest.approx(launch.flop / launch.true_bytes)
    assert shown.reuse == launch.reuse
    assert shown.called_from == "host.py:3"


def test_one_launch_can_be_chosen_and_others_are_refused(tmp_path: Path) -> None:
    trace = trace_of(matmul(tmp_path), copy_past_the_end(tmp_path))
    assert [launch.kernel for launch in kernel_scene(trace).launches] == ["product", "shifted"]
    assert [launch.kernel for launch in kernel_scene(trace, 1).launches] == ["shifted"]
    for wrong in (2, -1):
        with pytest.raises(UsageError, match="no such launch"):
            kernel_scene(trace, wrong)


def test_a_product_knows_the_loads_of_its_factors(tmp_path: Path) -> None:
    (launch,) = kernel_scene(trace_of(matmul(tmp_path))).launches
    assert list(launch.operands) == [(), (), ((0,), (1,)), ()]


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("acc += tl.dot(q, k)", ("q", "k")),
        ("s = tl.dot(q.to(tl.float16), tl.trans(k), s)", ("q", "k")),
        ("s = tl.dot(a, b.T)", ("a", "b")),
        ("s = tl.dot(x + y, b)", ("", "b")),
        ("c = tl.dot_scaled(a, sa, 'e4m3', b, sb, 'e4m3')", ("a", "b")),
        ("return tl.dot(a, b)", ("a", "b")),
        ("for i in range(tl.dot(", ()),
    ],
)
def test_factors_are_named_by_the_statement(statement: str, names: tuple[str, ...]) -> None:
    assert factor_names(statement) == names


def test_a_name_of_another_function_is_not_a_factor() -> None:
    sites = [
        Site("k.py", 1, "helper", "a = tl.load(p)", ()),
        Site("k.py", 9, "kernel", "c = tl.dot(a, b)", ()),
    ]
    assert operands_of(sites, [0]) == [(), ((), ())]


def test_only_the_kernel_itself_is_shown(tmp_path: Path) -> None:
    (launch,) = kernel_scene(trace_of(matmul(tmp_path))).launches
    (source,) = launch.sources
    assert source.line == 4
    assert source.text == tuple(SOURCE.splitlines()[3:9])
    assert "SECRET" not in str(launch.sources)


@pytest.mark.parametrize("change", ["edited", "gone", "not python"])
def test_text_that_is_not_what_was_traced_is_left_out_with_a_word(tmp_path: Path, change: str) -> None:
    launch = matmul(tmp_path)
    file = Path(launch.file)
    if change == "edited":
        file.write_text(SOURCE.replace("import tools", "import tools\n"))
    elif change == "gone":
        file.unlink()
    else:
        other = str(file.rename(tmp_path / "kernel.txt"))
        launch = replace(launch, file=other, sites=tuple(replace(site, file=other) for site in launch.sites))
    (shown,) = kernel_scene(trace_of(launch)).launches
    assert shown.sources == ()
    assert "not as it was" in shown.notes[0]


def test_values_are_those_recorded_and_not_stored_twice(tmp_path: Path) -> None:
    recorded = matmul(tmp_path)
    (launch,) = kernel_scene(trace_of(recorded)).launches
    a, _, c = launch.tensors
    assert (a.written, a.after) == (False, None)
    assert c.written
    assert recorded.values is not None
    assert np.array_equal(c.after, recorded.values.after[2].reshape(-1))  # type: ignore[arg-type]
    assert launch.events is not None
    numbers = launch.events.value.reshape(-1, 10)
    # Loads of what nothing writes are in the tensor; products and the store are kept: 4 of 10 operations.
    assert (numbers[:, [0, 1, 3, 4, 6, 7]] == -1).all()
    assert numbers[:, [2, 5, 8, 9]].ravel().tolist() == list(range(24))


def test_what_is_too_much_is_left_out_with_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(matmul(tmp_path), matmul(tmp_path))
    monkeypatch.setattr(scenes._Room, "__init__", lambda self: _tight(self))
    scene = kernel_scene(trace)
    assert scene.launches[0].events is not None
    assert scene.launches[1].events is None
    assert scene.launches[1].patterns == ()
    assert scene.launches[0].tensors[0].before is None
    assert any("60 operations are omitted" in note for note in scene.notes)
    assert any("values of a_ptr are omitted" in note for note in scene.notes)
    assert any("values of 41 operations are omitted" in note for note in scene.notes)


def _tight(room: Any) -> None:
    room.events, room.tensor_values, room.event_values, room.notes = 100, 1000, 256, []


def test_elementwise_operations_give_way_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = scaled(tmp_path)
    monkeypatch.setattr(scenes._Room, "__init__", lambda self: _with_room(self, events=15))
    scene = kernel_scene(trace_of(launch))
    assert scene.notes == ("launch 0: its 8 elementwise operations are omitted; open it alone, or trace a sample",)
    events = scene.launches[0].events
    assert events is not None
    assert [events.ops[op] for op in events.op.tolist()] == ["load", "store"] * 4
    assert events.base.tolist() == [0, 0, 64, 64, 128, 128, 192, 192]
    monkeypatch.setattr(scenes._Room, "__init__", lambda self: _with_room(self, events=7))
    nothing = kernel_scene(trace_of(launch))
    assert nothing.launches[0].events is None
    assert nothing.notes == ("launch 0: its 16 operations are omitted; open it alone, or trace a sample",)


def _with_room(room: scenes._Room, events: int) -> None:
    room.events, room.tensor_values, room.event_values, room.notes = events, 0, 0, []


def test_a_trace_that_only_counted_has_no_operations(tmp_path: Path) -> None:
    counted = replace(matmul(tmp_path, values=False), events=None, patterns=(), masks=())
    (launch,) = kernel_scene(replace(trace_of(counted), mode="count")).launches
    assert launch.events is None
    assert launch.totals["loaded_bytes"] == 21888


def test_a_sample_is_named(tmp_path: Path) -> None:
    assert (
        kernel_scene(trace_of(matmul(tmp_path), sample=5)).sampling
        == "a sample: 5 programs of each launch, chosen by seed 0"
    )
    assert "0.25 of the programs" in kernel_scene(trace_of(matmul(tmp_path), sample=0.25)).sampling
    assert kernel_scene(trace_of(matmul(tmp_path))).sampling == ""


def test_an_empty_trace_gives_a_page(tmp_path: Path) -> None:
    assert b"<html" in kernel_page_bytes(kernel_scene(KernelTrace("record", "3.9.0", 0, None, ())))


def test_text_is_in_the_page_as_base64_only(tmp_path: Path) -> None:
    nasty = "</script><script>alert(1)</script>"
    page = kernel_page_bytes(kernel_scene(trace_of(matmul(tmp_path, name=nasty)))).decode()
    assert nasty not in page
    assert page.count("</script>") == 2
    assert "&lt;/script&gt;" in page


def test_the_packed_header_says_where_the_columns_are(tmp_path: Path) -> None:
    header = header_of(packed_scene(kernel_scene(trace_of(matmul(tmp_path)))))
    (launch,) = header["launches"]
    assert launch["grid"] == [3, 2, 1]
    assert {spec["rows"] for spec in launch["events"]["columns"].values()} == {60}
    assert launch["tensors"][0]["before"]["single"]
    assert launch["operands"][2] == [[0], [1]]
    assert len(launch["events"]["values"]) == 24


def test_infinities_of_doubles_survive(tmp_path: Path) -> None:
    from warplens.outputs.html.pack import Packer
    from warplens_lab.pages.kernel_page import _numbers

    finite, infinite = np.array([1.5, 2.25]), np.array([1.5, np.inf])
    specs = [_numbers(values, Packer()) for values in (finite, infinite)]
    assert [spec is not None and spec.is_single for spec in specs] == [False, True]


def test_a_real_trace_becomes_a_scene() -> None:
    pytest.importorskip("triton")
    import importlib.util

    from warplens_lab.tracing import trace

    path = Path(__file__).parents[1] / "kernels" / "matmul.py"
    spec = importlib.util.spec_from_file_location("kernels_matmul", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with trace(values=True) as tracing:
        module.launch(*module.inputs())
    (launch,) = kernel_scene(tracing.trace).launches
    assert launch.notes == ()
    assert launch.sources[0].text[1].startswith("def matmul_kernel")
    (dot,) = [number for number, site in enumerate(launch.sites) if "tl.dot" in site.statement]
    assert [launch.sites[at].statement[:5] for (at,) in launch.operands[dot]] == ["a = t", "b = t"]
    assert launch.events is not None
    assert len(launch.events.values) == 24
