"""XLA profiles: what the file's own numbers say, one made by hand, and damaged ones."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from protobuf_bytes import encode, varint
from support import ROOT, SHARED, raw_events
from warplens.model.trace import Meta, Trace
from warplens.passes import run_passes
from warplens.profiles.trace import Profile
from warplens.readers.shared.protobuf_wire import Damage, Message, double_of, signed, whole_file
from warplens.readers.xplane import reader as xplane
from warplens.readers.xplane import trace_json as xplane_json
from warplens_run.base.errors import FormatError

JAX = ROOT / "samples" / "jax" / "transformer_step.xplane.pb.gz"
SAME_RUN = SHARED / "traces" / "jax" / "transformer_step.trace.json.gz"
MI300 = SHARED / "traces" / "public" / "mi300_jax_conv.xplane.pb"


def content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


# A decoder of its own, for whole files only.


def plain_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(data):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
            continue
        size = {1: 8, 5: 4}.get(tag & 7) or number()
        yield tag >> 3, data[place : place + size]
        place += size


def plain_events(path: Path) -> list[tuple[str, str, str, int, int]]:
    """Every event as (plane, line, name, start in ps, duration in ps)."""
    found = []
    for plane in (value for field, value in plain_fields(content(path)) if field == 1):
        parts = list(plain_fields(plane))
        plane_name = next(value.decode() for field, value in parts if field == 2)
        entries = [dict(plain_fields(value)) for field, value in parts if field == 4]
        names = {entry[1]: dict(plain_fields(entry[2])).get(2, b"").decode() for entry in entries}
        for line in (list(plain_fields(value)) for field, value in parts if field == 3):
            head = {field: value for field, value in line if field != 4}
            for event in (dict(plain_fields(value)) for field, value in line if field == 4):
                start = head.get(3, 0) * 1000 + event.get(2, 0)
                found.append((plane_name, head[2].decode(), names[event[1]], start, event.get(3, 0)))
    return found


class Plane:
    """A plane made by hand; names get their numbers as they come."""

    def __init__(self, name: str, **stats: int | float | str) -> None:
        self.name = name
        self.lines: list[bytes] = []
        self.kinds: dict[str, int] = {}
        self.raw_kinds: list[bytes] = []
        self.stat_names: dict[str, int] = {}
        self.stats = self._stats(stats)

    def _stats(self, stats: dict[str, int | float | str]) -> list[bytes]:
        field_of = {int: 4, float: 2, str: 5}
        numbers = [(self.stat_names.setdefault(name, len(self.stat_names) + 1), value) for name, value in stats.items()]
        return [encode((1, number), (field_of[type(value)], value)) for number, value in numbers]

    def line(self, number: int, name: str, start_ns: int, *events: tuple[str, int, int, dict[str, Any]]) -> Plane:
        encoded = [
            encode(
                (1, self.kinds.setdefault(title, len(self.kinds) + 1)),
                (2, offset),
                (3, duration),
                *((4, stat) for stat in self._stats(stats)),
            )
            for title, offset, duration, stats in events
        ]
        self.lines.append(encode((1, number), (2, name), (3, start_ns), *((4, event) for event in encoded)))
        return self

    def encode(self) -> bytes:
        maps = [
            (field, encode((1, number), (2, encode((1, number), (2, name)))))
            for field, table in ((4, self.kinds), (5, self.stat_names))
            for name, number in table.items()
        ]
        maps += [(4, kind) for kind in self.raw_kinds]
        return encode((2, self.name), *((3, line) for line in self.lines), *maps, *((6, stat) for stat in self.stats))


def space(*planes: Plane) -> bytes:
    return encode(*((1, plane.encode()) for plane in planes))


def opened(text: bytes) -> Trace:
    return run_passes(xplane.read(text, Meta(source="test", format=""), []), check_each=True)


def opened_file(path: Path) -> Trace:
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    return opened(content(path))


def kinds(trace: Trace) -> dict[str, int]:
    return dict(Counter(trace.named_events()["kind"].to_list()))


def callers(trace: Trace, row: int) -> list[int]:
    """The recorded callers of a GPU event and what is around them, innermost first."""
    parent, found = trace.ints("parent"), [int(trace.ints("op")[row])]
    while parent[found[-1]] >= 0:
        found.append(int(parent[found[-1]]))
    return found


def outermost(trace: Trace, row: int) -> int:
    parent = trace.ints("parent")
    while parent[row] >= 0:
        row = int(parent[row])
    return row


def codes(trace: Trace) -> set[str]:
    return {note.code for note in trace.quality.notes}


SINCE_1970 = 1_794_700_769_552_692_961
DETAILS = "regs:32 static_shared:16 dynamic_shared:1024 grid:4,2,1 block:128,1,1 occ_pct:62.5"


def gpu_plane() -> Plane:
    facts: dict[str, Any] = {"gpu_device_name": "NVIDIA H200", "core_count": 132, "memory_size": 150109880320}
    plane = Plane("/device:GPU:1", **facts, compute_cap_major=9, compute_cap_minor=0)
    kernel = (
        "loop_add_fusion",
        5_000_500,
        2_001_499,
        {"correlation_id": 7, "kernel_details": DETAILS, "hlo_op": "add.1"},
    )
    copy_details = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    copy = ("MemcpyH2D", 9_000_000, 1_000_000, {"correlation_id": 8, "memcpy_details": copy_details})
    fill = (
        "Memset 0",
        11_000_000,
        500_000,
        {"correlation_id": 9, "Memset_details": "kind:device num_bytes:64 async:1"},
    )
    plane.line(99, "Stream #7(Compute,MemcpyH2D)", SINCE_1970, kernel, copy, fill)
    for name in ("XLA Modules", "XLA Ops", "Steps", "Framework Ops", "Source code"):
        plane.line(1000 + len(plane.lines), name, SINCE_1970, ("add.1", 5_000_500, 2_001_499, {}))
    return plane


def host_plane() -> Plane:
    return Plane("/host:CPU", process_id=42).line(
        5,
        "python3",
        SINCE_1970,
        ("train", 0, 9_000_000, {"step_num": 3}),
        ("eval", 20_000_000, 1_000_000, {"step_num": 3}),
        ("my phase", 100_000, 8_500_000, {}),
        ("$train.py:12 step", 200_000, 8_000_000, {}),
        ("$builtins len", 210_000, 1_000, {}),
        ("PjitFunction(step)", 300_000, 7_000_000, {}),
        ("Handle inputs", 400_000, 100_000, {}),
        ("add.1", 1_000_000, 4_000_000, {}),
        ("loop_add_fusion", 1_100_000, 300_000, {"correlation_id": 7}),
        ("loop_mul_fusion", 1_500_000, 300_000, {"correlation_id": 70}),
        ("cuMemcpyHtoDAsync", 5_500_000, 300_000, {"correlation_id": 8}),
        ("cuGraphLaunch (CudaGraph:3)", 6_000_000, 300_000, {"correlation_id": 9}),
        (
            "MemoryDeallocation",
            6_500_000,
            0,
            {"allocator_name": "GPU_1_bfc", "allocation_bytes": 256, "bytes_allocated": 1024, "bytes_reserved": 0},
        ),
    )


def test_copies_are_copies_whatever_they_are_called_and_whatever_runs_them() -> None:
    """ROCm names them by what they do, by its own words, or records the kernel that it copies device memory with."""
    details = "kind:Unknown size:655360 dest:2 async:1"
    work = (
        ("CopyDeviceToDevice", 1_000_000, 100_000, {"correlation_id": 1, "memcpy_details": details}),
        ("CopyHostToDevice2D", 2_000_000, 100_000, {"correlation_id": 2}),
        ("MEMORY_COPY_DEVICE_TO_HOST", 3_000_000, 100_000, {"correlation_id": 3}),
        ("__amd_rocclr_copyBuffer.kd", 4_000_000, 100_000, {"correlation_id": 4, "kernel_details": " grid:16,1,1"}),
        ("__amd_rocclr_copyBufferAligned", 5_000_000, 100_000, {"correlation_id": 5}),
        ("copy_fusion", 6_000_000, 100_000, {"correlation_id": 6}),
        ("copy.5", 7_000_000, 100_000, {"correlation_id": 7}),
        ("strange", 8_000_000, 100_000, {"correlation_id": 8, "memcpy_details": details}),
    )
    asked = ("hipMemcpyDtoDAsync", 500_000, 100_000, {"correlation_id": 4, "memcpy_details": "kind:Unknown size:4096"})
    gpu = Plane("/device:GPU:0").line(7, "Stream #7(Kernel)", SINCE_1970, *work)
    trace = opened(space(gpu, Plane("/host:CPU").line(5, "Host Threads/1", SINCE_1970, asked)))
    events = trace.named_events().filter(pl.col("stream") == 7).sort("start_ns")
    assert events.select("kind", "name").rows() == [
        ("memcpy", "Memcpy DtoD"),
        ("memcpy", "Memcpy HtoD"),
        ("memcpy", "Memcpy DtoH"),
        ("memcpy", "Memcpy DtoD"),
        ("memcpy", "__amd_rocclr_copyBufferAligned"),
        ("kernel", "copy_fusion"),
        ("kernel", "copy.5"),
        ("memcpy", "strange"),
    ]
    assert trace.copies["bytes"].to_list() == [655360, 4096, 655360]


def test_a_file_made_by_hand() -> None:
    trace = opened(space(gpu_plane(), host_plane()))
    events = trace.named_events()
    kernel = events.row(by_predicate=pl.col("kind") == "kernel", named=True)
    assert (kernel["name"], kernel["start_ns"], kernel["dur_ns"]) == ("loop_add_fusion", 5000, 2001)
    assert (kernel["device"], kernel["stream"], kernel["correlation"], kernel["step"]) == (1, 7, 7, 3)
    assert events["name"][kernel["op"]] == "add.1"
    assert trace.geometries.row(kernel["geometry"]) == ("[4, 2, 1]", "[128, 1, 1]", 32, 1040, 62.5)
    assert dict(zip(events["name"][trace.copies["id"]], trace.copies["bytes"], strict=True)) == {
        "Memcpy HtoD (Pageable -> Device)": 4096,
        "Memset 0": 64,
    }
    assert kinds(trace) == {
        "annotation": 3,
        "python": 2,
        "op": 2,
        "runtime": 3,
        "other": 2,
        "kernel": 1,
        "memcpy": 1,
        "memset": 1,
        "gpu_annotation": 5,
    }
    by_kind = {kind: set(rows["name"]) for (kind,), rows in events.group_by("kind")}
    assert by_kind["annotation"] == {"ProfilerStep#3", "eval 3", "my phase"}
    assert by_kind["python"] == {"train.py(12): step", "builtins len"}
    assert by_kind["runtime"] == {"loop_add_fusion", "cuMemcpyHtoDAsync", "cuGraphLaunch"}
    assert by_kind["other"] == {"Handle inputs", "loop_mul_fusion"}  # built into a graph, never launched by itself
    assert trace.memory.select("device", "bytes", "allocated_bytes", "reserved_bytes").row(0) == (
        "GPU 1",
        -256,
        1024,
        -1,
    )
    device = trace.meta.devices[0]
    assert (device.id, device.name, device.multiprocessors, device.compute) == (1, "NVIDIA H200", 132, "9.0")
    assert trace.meta.format == "xplane"
    assert not codes(trace) & {"truncated", "damaged", "unnamed", "out_of_range"}


def test_lines_derived_from_streams_are_not_gpu_work() -> None:
    trace = opened(space(gpu_plane()))
    assert int(trace.ints("dur_ns")[trace.gpu_rows].sum()) == 2001 + 1000 + 500


def test_tpus_are_named_as_what_is_not_analysed() -> None:
    planes = [Plane(f"/device:TPU:{n}").line(1, "XLA Ops", 0, ("fusion.1", 0, 1_000_000, {})) for n in range(4)]
    host = Plane("/host:CPU").line(7, "python", 0, ("PjitFunction(f)", 0, 5_000_000, {}))
    (note,) = [note for note in opened(space(*planes, host)).quality.notes if note.code == "other_accelerator"]
    assert note.message == "work of 4 TPUs is in the file and is not analysed: only GPUs are"


def test_a_profile_of_tensorflow_gets_no_advice_for_jax() -> None:
    kernel = "void tensorflow::functor::FillPhiloxRandomKernelLaunch<float>(int)"
    gpu = Plane("/device:GPU:0").line(21, "Stream #21(Kernel)", 0, (kernel, 0, 1_000_000, {}))
    host = Plane("/host:CPU").line(7, "python", 0, ("TraceContext", 0, 5_000_000, {}))
    trace = opened(space(gpu, host))
    assert trace.meta.format == "tensorflow"
    assert not any("jax" in note.message for note in trace.quality.notes)


def test_a_line_without_a_stream_in_its_name_goes_by_its_id() -> None:
    plane = (
        Plane("/device:GPU:0").line(21, "", 0, ("k", 0, 1_000_000, {})).line(1, "XLA Ops", 0, ("k", 0, 1_000_000, {}))
    )
    events = opened(space(plane)).named_events()
    assert events.filter(pl.col("kind") == "kernel")["stream"].to_list() == [21]


@pytest.mark.parametrize("both_at_once", [False, True])
def test_launches_on_a_line_of_their_own_find_their_hlo_op(both_at_once: bool) -> None:
    """As ROCm writes it. Where two threads run the op at once, the clear cases of the line decide, if there are any."""
    stats = [{"correlation_id": number, "hlo_op": "dot.2"} for number in (1, 2)]
    gpu = Plane("/device:GPU:0")
    gpu.line(1, "Stream #1(Kernel)", 0, *[("Cijk", 90_000_000, 1_000_000, stat) for stat in stats])
    host = Plane("/host:CPU")
    calls = [("hipModuleLaunchKernel", 10_000_000 * (n + 1), 1_000_000, stat) for n, stat in enumerate(stats)]
    host.line(583, "Host Threads/583", 0, *calls)
    host.line(7, "py_xla_execute/7", 0, *[("dot.2", start, 5_000_000, {}) for start in (8_000_000, 18_000_000)])
    starts = (8_500_000, 18_500_000) if both_at_once else (18_500_000,)
    host.line(8, "py_xla_execute/8", 0, *[("dot.2", start, 5_000_000, {}) for start in starts])
    events = opened(space(gpu, host)).events
    ops = [row for row in events.filter(pl.col("stream") == 1)["op"].to_list() if row >= 0]
    assert len(ops) == (0 if both_at_once else 2)
    assert {events["lane"][row] for row in ops} <= {1}


def test_the_sample_adds_up_to_what_the_file_says() -> None:
    trace = opened_file(JAX)
    events = trace.named_events()
    plain = plain_events(JAX)
    on_gpu = [event for event in plain if event[0].startswith("/device:GPU")]
    work = events.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    assert len(on_gpu) == work.height == 444
    assert int(work["dur_ns"].sum()) * 1000 == sum(event[4] for event in on_gpu)
    first = min(start for *_, start, _ in plain)
    ours = sorted(zip(work["name"], work["start_ns"], work["dur_ns"], strict=True))
    assert ours == sorted((name, (start - first) // 1000, duration // 1000) for _, _, name, start, duration in on_gpu)
    assert trace.meta.events_in_file == len(plain) == len(trace) - trace.frames.height + trace.memory.height


def test_the_sample_agrees_with_the_json_of_the_same_run() -> None:
    if not SAME_RUN.exists():
        pytest.skip(f"{SAME_RUN.name} is not here")
    trace = opened_file(JAX)
    lane = next(row for row, lane in enumerate(trace.lanes["process"]) if lane == "GPU 0")
    events = [event for event in raw_events(SAME_RUN) if event.get("ph") == "X"]
    expected = [event["dur"] for event in events if event["pid"] == 1]
    ours = trace.named_events().filter(pl.col("lane") == lane)
    assert ours.height == len(expected)
    assert ours["dur_ns"].sum() / 1000 == pytest.approx(sum(expected), abs=1e-3)
    assert len(trace) - trace.frames.height == len(events)


def test_the_sample_has_steps_launches_and_sensible_categories() -> None:
    trace = opened_file(JAX)
    recorded = set(trace.frames["id"].to_list())
    timed = Counter(kind for row, kind in enumerate(trace.named_events()["kind"]) if row not in recorded)
    assert timed == {
        "kernel": 396,
        "memset": 48,
        "runtime": 43,
        "python": 45,
        "annotation": 3,
        "op": 12,
        "other": 228,
    }
    assert trace.steps["step"].to_list() == [0, 1, 2]
    events = trace.named_events()
    work = events[trace.gpu_rows]
    assert {events["name"][row] for row in work["launch"]} == {"cuGraphLaunch"}
    assert work["step"].value_counts().sort("step")["count"].to_list() == [148, 148, 148]
    categories = Profile(trace).table("kernel_categories").frame
    assert categories["kernel_category"][0] == "GEMM"
    assert not categories["kernel_category"].str.contains("(?i)other|unknown").any()
    change = trace.memory["allocated_bytes"].diff()[1:]
    assert (change == trace.memory["bytes"][1:]).all()


def test_an_amd_file_of_eight_gpus() -> None:
    trace = opened_file(MI300)
    on_gpu = [event for event in plain_events(MI300) if event[0].startswith("/device:GPU")]
    work = trace.named_events()[trace.gpu_rows]
    assert int(work["dur_ns"].sum()) * 1000 == sum(event[4] for event in on_gpu)
    assert work.height == len(on_gpu) == 235
    assert [device.id for device in trace.meta.devices] == list(range(8))
    assert (work["launch"] >= 0).all()
    # A thread allocates on one GPU only: the ops found for its kernels must lie on threads of that GPU.
    allocates = dict(trace.memory.select("lane", "device").rows())
    tied = work.filter(pl.col("op") >= 0)
    assert tied.height == 198
    threads = [trace.events["lane"][outermost(trace, op)] for op in tied["op"]]
    assert [allocates[thread] for thread in threads] == [f"GPU {number}" for number in tied["device"]]
    frame = Profile(trace).table("kernel_categories").frame
    assert {"GEMM", "Layout Transform", "Convolution"} <= set(frame["kernel_category"])


def test_all_work_of_a_command_buffer_is_named_in_the_order_of_the_schedule() -> None:
    """What the file's own program says, instruction by instruction, found here by a decoder of its own."""
    trace = opened_file(JAX)
    expected = [program_op_name(instruction) for instruction in scheduled(JAX, "jit_step(7299)")]
    events = trace.named_events()
    work = events[trace.gpu_rows].filter(pl.col("kind") == "kernel").sort("start_ns")
    assert set(trace.contexts["id"].to_list()) == set(trace.gpu_rows.tolist())
    for step in range(3):
        found = [callers(trace, row) for row in work.filter(pl.col("step") == step)["id"]]
        assert len(found) == len(expected) == 132
        for rows, op_name in zip(found, expected, strict=True):
            names = [events["name"][row] for row in rows]
            kinds_ = [events["kind"][row] for row in rows]
            assert kinds_[0] == "op"
            if op_name:  # four fusions have none of their own
                assert names[1] == op_name.split("/")[-1]
                assert ("(backward)" in names) == ("transpose(" in op_name)
            assert "jit(step)" in names and "jit_step:XLA GPU module" in names
            assert "examples/jax_step.py(17): <module>" in names


def scheduled(path: Path, program: str) -> list[dict[int, Any]]:
    """The instructions of a program's entry computation that launch something, in the order of its schedule."""
    for plane in (value for field, value in plain_fields(content(path)) if field == 1):
        for entry in (dict(plain_fields(value)) for field, value in plain_fields(plane) if field == 4):
            kind = list(plain_fields(entry[2]))
            if dict(kind).get(2) == program.encode():
                stats = [dict(plain_fields(value)) for field, value in kind if field == 5]
                proto = next(stat[6] for stat in stats if 6 in stat)
                return entry_computation(dict(plain_fields(proto))[1])
    raise LookupError(program)


def entry_computation(module: bytes) -> list[dict[int, Any]]:
    parts = list(plain_fields(module))
    entry = dict(parts)[6]
    computation = next(value for field, value in parts if field == 3 and dict(plain_fields(value))[5] == entry)
    instructions = [dict(plain_fields(value)) for field, value in plain_fields(computation) if field == 2]
    by_number = {instruction[35]: instruction for instruction in instructions}
    sequences = [dict(plain_fields(value)) for field, value in plain_fields(dict(parts)[7]) if field == 1]
    packed = next(dict(plain_fields(sequence[2]))[1] for sequence in sequences if sequence[1] == entry)
    order = [number for _, number in plain_fields(b"".join(b"\x08" + each for each in split_varints(packed)))]
    silent = {b"parameter", b"bitcast", b"get-tuple-element", b"tuple", b"constant"}
    return [by_number[number] for number in order if by_number[number][2] not in silent]


def split_varints(packed: bytes) -> list[bytes]:
    ends = [place + 1 for place, byte in enumerate(packed) if byte < 128]
    return [packed[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def program_op_name(instruction: dict[int, Any]) -> str:
    return dict(plain_fields(instruction.get(7, b""))).get(2, b"").decode()


def test_time_lands_on_the_users_lines_forward_and_backward() -> None:
    profile = Profile(opened_file(JAX))
    lines = profile.table("python_lines").frame
    assert lines.select("line", "function", "count").rows()[:3] == [
        (7, "layer", 210),
        (6, "layer", 123),
        (4, "attn", 96),
    ]
    assert (lines["backward_us"][:3] > lines["forward_us"][:3]).all()
    assert lines["kernel_us"].sum() == pytest.approx(profile.trace.ints("dur_ns")[profile.trace.gpu_rows].sum() / 1000)
    phases = dict(profile.table("phases").frame.select("phase", "count").rows())
    assert phases == {"backward": 246, "forward": 198}
    ops = profile.table("ops").frame
    library = ops.row(by_predicate=pl.col("op") == "custom-call __cublas$lt$matmul", named=True)
    assert library["count"] == 84  # 28 in each of three steps; 16 of them fill memory first
    assert ops.row(by_predicate=pl.col("op") == "fusion.234", named=True)["count"] == 12


def test_no_note_advises_what_only_pytorch_can_do() -> None:
    for path in (JAX, MI300):
        if path.exists():
            messages = " ".join(note.message for note in opened(content(path)).quality.notes)
            assert "with_stack" not in messages and "record_shapes" not in messages and "prof.step" not in messages
            assert "graph launches" not in messages
    assert "no_step_annotations" in codes(opened(space(gpu_plane())))


def program(name: str, number: int, *instructions: bytes, stack: bytes = b"") -> Plane:
    """The metadata plane with one program, all of whose instructions are scheduled as they come."""
    order = encode((1, b"".join(varint(place + 1) for place in range(len(instructions)))))
    entry = encode((1, "main"), *((2, each) for each in instructions), (5, 1), (6, len(instructions)))
    schedule = encode((1, encode((1, 1), (2, order))))
    proto = encode((1, encode((1, name), (3, entry), (6, 1), (7, schedule), (17, stack))))
    plane = Plane("/host:metadata")
    plane.stat_names["Hlo Proto"] = 1
    plane.raw_kinds.append(encode((1, 7), (2, encode((2, f"{name}({number})"), (5, encode((1, 1), (6, proto)))))))
    return plane


def instruction(number: int, name: str, opcode: str = "fusion", op_name: str = "", frame: int = 0) -> bytes:
    return encode((1, name), (2, opcode), (7, encode((2, op_name), (15, frame))), (35, number))


STACK = encode(
    (1, "model.py"), (2, "main"), (2, "attend"),
    (3, encode((1, 1), (2, 1), (3, 90))), (3, encode((1, 1), (2, 2), (3, 12))),
    (4, encode((1, 1))), (4, encode((1, 2), (2, 1))),
)  # fmt: skip


def test_an_event_that_names_its_hlo_op_gets_its_callers() -> None:
    added = instruction(1, "add.1", op_name="jit(f)/transpose(jvp(layer0))/add", frame=2)
    gpu = gpu_plane()
    text = space(program("jit_f", 5, added, stack=STACK), gpu, host_plane())
    trace = opened(text)  # the event says no program, but there is only one of its module's name
    assert trace.contexts.is_empty()
    stats = {"correlation_id": 7, "hlo_op": "add.1", "program_id": 5}
    gpu = Plane("/device:GPU:0").line(1, "Stream #7", SINCE_1970, ("loop_add_fusion", 5_000_500, 2_001_499, stats))
    trace = opened(space(program("jit_f", 5, added, stack=STACK), gpu, host_plane()))
    events = trace.named_events()
    path = [(events["kind"][row], events["name"][row]) for row in callers(trace, int(trace.gpu_rows[0]))]
    assert path == [
        ("op", "add.1"),
        ("op", "add"),
        ("other", "(backward)"),
        ("annotation", "layer0"),
        ("annotation", "jit(f)"),
        ("python", "model.py(12): attend"),
        ("python", "model.py(90): main"),
        ("op", "PjitFunction(step)"),
        ("python", "train.py(12): step"),
        ("annotation", "my phase"),
        ("annotation", "ProfilerStep#3"),
    ]
    primitive = callers(trace, int(trace.gpu_rows[0]))[1]
    assert events["name"][int(trace.ints("forward")[primitive])] == "layer0"
    tree = Profile(trace).tree()
    assert "(backward)" in tree.name and tree.name.count("layer0") == 1


def test_a_program_is_found_by_its_modules_name_where_the_event_gives_no_number() -> None:
    added = instruction(1, "add.1", op_name="jit(f)/add")
    stats = {"hlo_op": "add.1", "hlo_module": "jit_f"}
    gpu = Plane("/device:GPU:0").line(1, "Stream #7", 0, ("k", 0, 1_000_000, stats))
    assert opened(space(program("jit_f", 5, added), gpu)).contexts.height == 1
    assert opened(space(program("jit_g", 5, added), gpu)).contexts.is_empty()
    assert opened(space(program("jit_f", 5, added), program("jit_f", 6, added), gpu)).contexts.is_empty()


def test_without_the_program_the_events_own_scopes_count() -> None:
    stats = {"hlo_op": "add.1", "name": "jit(f)/layer0/add"}
    gpu = Plane("/device:GPU:0").line(1, "Stream #7", 0, ("k", 0, 1_000_000, stats))
    trace = opened(space(gpu))
    names = [trace.named_events()["name"][row] for row in callers(trace, int(trace.gpu_rows[0]))]
    assert names == ["add.1", "add", "layer0", "jit(f)"]


def test_work_of_a_command_buffer_that_fits_no_instruction_stays_on_its_launch() -> None:
    stats = {"correlation_id": 9, "hlo_op": "command_buffer", "program_id": 5}
    known, library = ("fusion_3", 0, 1_000_000, stats), ("sgemm", 2_000_000, 1_000_000, stats)
    gpu = Plane("/device:GPU:0").line(1, "Stream #7", SINCE_1970 + 7000, known, library)
    trace = opened(space(program("jit_f", 5, instruction(1, "fusion.3", op_name="jit(f)/mul")), gpu, host_plane()))
    frame = Profile(trace).table("kernels").frame
    assert set(frame.select("kernel", "op").rows()) == {("fusion_3", "fusion.3"), ("sgemm", "cuGraphLaunch")}
    note = next(note for note in trace.quality.notes if note.code == "no_hlo_op")
    assert (note.count, note.detail) == (1, "50.0%")
    with_call = (instruction(1, "fusion.3", op_name="jit(f)/mul"), instruction(2, "cc.1", "custom-call", "jit(f)/dot"))
    trace = opened(space(program("jit_f", 5, *with_call), gpu, host_plane()))
    assert trace.contexts.height == 2 and "no_hlo_op" not in codes(trace)


@pytest.mark.nightly
def test_a_damaged_program_costs_the_callers_only() -> None:
    text = content(JAX)
    start = text.index(b"jit_step\x12")
    random_source = random.Random(3)
    for _ in range(20):
        broken = bytearray(text)
        for _ in range(20):
            broken[start + random_source.randrange(200_000)] = random_source.randrange(256)
        trace = opened(bytes(broken))
        assert len(trace.gpu_rows) == 444


def opened_json(text: bytes) -> Trace:
    return run_passes(xplane_json.read(text, Meta(source="test", format=""), []), check_each=True)


def test_the_json_of_the_same_run_reads_like_the_planes_but_for_the_programs() -> None:
    if not SAME_RUN.exists():
        pytest.skip(f"{SAME_RUN.name} is not here")
    planes, trace = opened_file(JAX), opened_json(content(SAME_RUN))
    assert trace.meta.format == "xla_json"
    assert kinds(trace)["python"] == 45 and trace.meta.phases["X"] == len(trace)
    columns = ["name", "dur_ns", "device", "stream", "correlation", "step"]
    ours, theirs = (each.named_events()[each.gpu_rows].select(columns).rows() for each in (trace, planes))
    assert sorted(ours) == sorted(theirs)
    assert {trace.named_events()["name"][row] for row in trace.ints("op")[trace.gpu_rows].tolist()} == {
        "command_buffer_1"
    }
    assert set(trace.geometries.rows()) == set(planes.geometries.rows())
    assert codes(trace) == {"no_op_shapes", "no_programs", "overlap"}


def json_trace(*events: dict[str, Any]) -> bytes:
    named = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:3"}}
    stream = {"ph": "M", "pid": 1, "tid": 9, "name": "thread_name", "args": {"name": "Stream #9(Compute)"}}
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": [named, stream, *events, {}]}).encode()


KERNEL = {
    "ph": "X",
    "pid": 1,
    "tid": 9,
    "ts": 1.5,
    "dur": 2.0,
    "name": "k",
    "args": {"hlo_op": "add.1", "name": "f/g/add"},
}


@pytest.mark.nightly
def test_a_json_file_made_by_hand_and_damaged() -> None:
    trace = opened_json(json_trace(KERNEL, {**KERNEL, "ts": 9e99}, {**KERNEL, "ts": 4.0}))
    assert trace.named_events()[trace.gpu_rows].select("start_ns", "device", "stream").rows() == [
        (0, 3, 9),
        (2500, 3, 9),
    ]
    assert "out_of_range" in codes(trace) and "not_events" not in codes(trace)
    assert [trace.named_events()["name"][row] for row in callers(trace, int(trace.gpu_rows[0]))] == [
        "add.1",
        "add",
        "g",
        "f",
    ]
    text = json_trace(KERNEL, KERNEL)
    for size in range(len(text)):
        try:
            assert "truncated" in codes(opened_json(text[:size]))
        except FormatError:
            assert size < text.index(b"add.1") + 60


def read_or_refuse(text: bytes, linked: bool = True) -> Trace | None:
    try:
        return opened(text) if linked else xplane.read(text, Meta(source="test", format=""), [])
    except FormatError:
        return None


@pytest.mark.parametrize("path", [JAX, MI300], ids=["h200", "mi300"])
def test_a_cut_file_gives_what_is_intact(path: Path) -> None:
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    text = content(path)
    most = 0
    for size in range(0, len(text), 1000):
        trace = read_or_refuse(text[:size], linked=size % 10_000 == 0)
        assert trace is None or ("truncated" in codes(trace) and "damaged" not in codes(trace)), size
        intact = trace.meta.events_in_file if trace else 0
        assert intact >= most, size
        most = intact
    assert 0 < most <= opened(text).meta.events_in_file


@pytest.mark.nightly
def test_every_third_cut_of_a_small_file() -> None:
    text = space(gpu_plane(), host_plane())
    between_planes = len(space(gpu_plane()))
    for size in range(0, len(text), 3):
        trace = read_or_refuse(text[:size], linked=size % 10 == 0)
        assert trace is None or size == between_planes or "truncated" in codes(trace), size


def test_damage_never_raises_anything_else() -> None:
    text = space(gpu_plane(), host_plane())
    random_source = random.Random(5)
    for _ in range(150):
        broken = bytearray(text)
        for _ in range(random_source.randint(1, 6)):
            broken[random_source.randrange(len(broken))] = random_source.randrange(256)
        read_or_refuse(bytes(broken))
    for _ in range(300):
        read_or_refuse(random_source.randbytes(random_source.randint(0, 200)))


def test_an_event_that_says_only_how_often_is_counted_and_left_out() -> None:
    line = encode((1, 1), (2, "Stream #1"), (4, encode((1, 1), (3, 5_000), (5, 9))), (4, encode((1, 1), (3, 5_000))))
    trace = opened(encode((1, encode((2, "/device:GPU:0"), (3, line)))))
    assert len(trace) == 1
    assert {"out_of_range", "unnamed"} <= codes(trace)


@pytest.mark.parametrize("text", [b"", space(Plane("/host:CPU")), space(gpu_plane())[:40]])
def test_files_without_an_event_are_refused(text: bytes) -> None:
    with pytest.raises(FormatError):
        opened(text)


def test_wire_values() -> None:
    data = encode((1, 300), (2, "text"), (3, 1.5), (4, -2))
    fields = dict(whole_file(data).fields(damage := Damage()))
    assert fields[1] == 300
    assert isinstance(fields[2], Message) and fields[2].text() == "text"
    assert isinstance(fields[3], Message) and double_of(bytes(fields[3].view)) == 1.5
    assert isinstance(fields[4], int) and signed(fields[4]) == -2
    assert damage == Damage()


@pytest.mark.parametrize(
    ("data", "count", "damage"),
    [
        (b"\x08\x01\x10", 1, Damage(truncated=True)),
        (b"\x08\x01\x12\x05ab", 1, Damage(truncated=True)),
        (b"\x08\x01\x0b\x01", 1, Damage(places=1)),  # groups are not in use
        (b"\x00\x01", 0, Damage(places=1)),  # there is no field 0
        (b"\x08" + b"\xff" * 11, 0, Damage(truncated=True)),
    ],
)
def test_wire_damage_ends_the_message(data: bytes, count: int, damage: Damage) -> None:
    found = Damage()
    assert len(list(whole_file(data).fields(found))) == count
    assert found == damage
