"""Formats of bytes: XLA's protobuf with its HLO modules, pickled memory snapshots, and Proton's trees in two notations."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from typing import Any

import msgspec

from grammar.events import kineto_text
from grammar.values import Case, Hostile, plain
from protobuf_bytes import encode, varint

PLANES = ("/device:GPU:0", "/host:CPU", "/host:metadata", "/device:gpu:999999999", "Task Environment", "/device:TPU:0")
STATS = (
    *(
        "hlo_proto",
        "correlation_id",
        "kernel_details",
        "memcpy_details",
        "memset_details",
        "theoretical_occupancy_pct",
        "hlo_op",
    ),
    *(
        "hlo_module",
        "program_id",
        "name",
        "step_num",
        "_src",
        "allocator_name",
        "allocation_bytes",
        "bytes_allocated",
        "bytes_reserved",
    ),
)
STAT_TEXTS = (
    *(
        "regs:32 static_shared:0 dynamic_shared:0 grid:4,1,1 block:256,1,1 occ_pct:50",
        "kind_src:host kind_dst:device size:4096 dest:0",
    ),
    *(
        "fusion.1",
        "jit_step",
        "GPU_0_bfc",
        "GPU_" + "9" * 5000 + "_x",
        "jit(step)/transpose(jvp(layer0))/attn/dot_general",
        "a:" * 3000,
    ),
)
EVENTS = (
    "fusion.1",
    "loop_add_fusion",
    "$train.py:12 step",
    "PjitFunction(step)",
    "cuLaunchKernel",
    "MemcpyD2H",
    "MemoryAllocation",
    "MemoryDeallocation",
    "train",
    "ThunkExecute::x",
)


def xplane(h: Hostile) -> Case:
    names = h.rng.sample(PLANES, h.rng.randint(1, len(PLANES)))
    if "/device:GPU:0" not in names:
        names.append("/device:GPU:0")
    content = _joined(h, [(1, _plane(h, name)) for name in names])
    if h.lies():
        content = content[: h.rng.randrange(len(content) + 1)]
    return Case({"x.xplane.pb": h.packed(content)}, "x.xplane.pb")


def _joined(h: Hostile, fields: list[tuple[int, Any]]) -> bytes:
    """A message; fields may be missing, doubled, of other types, or have lengths that lie."""
    parts = []
    for number, value in fields:
        if isinstance(value, float) and not -1e300 < value < 1e300:
            value = 0.0
        part = encode(
            (number, value if isinstance(value, (int, float, bytes)) else str(value).encode("utf-8", "replace"))
        )
        if h.lies():
            kind = h.rng.randrange(5)
            other = encode((number, h.one(h.one(0, 2**63, 2**64 - 1), 1.5, b"", b"\xff" * 9, "x" * 3000)))
            part = (
                b"",
                part * (2 if len(part) > 2000 else h.one(2, 50)),
                other,
                varint(number << 3 | 2) + varint(h.one(2**31, 2**63, len(part) + 9)) + part,
                part + b"\xff",
            )[kind]
        parts.append(part)
    return b"".join(parts)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 7


def _plane(h: Hostile, name: str) -> bytes:
    stats = h.rng.sample(STATS, h.rng.randint(3, len(STATS)))
    if name == "/host:metadata" and "hlo_proto" not in stats:
        stats[0] = "hlo_proto"
    kinds = h.count(1)
    fields: list[tuple[int, Any]] = [(1, h.numbered(9) % 2**64), (2, h.maybe_wrong(name) if h.lies() else name)]
    if name == "/host:metadata":
        proto = _module(h)
        stat = _joined(h, [(1, stats.index("hlo_proto") + 1), (6, proto)])
        for number in range(1, h.one(1, 1, 2, h.count(1, 30) if len(proto) < 50_000 else 1) + 1):
            program = _joined(
                h,
                [
                    (1, number),
                    (2, h.text("jit_step(1)", "jit_step", f"jit_f({number})", "jit_f(" + "9" * 20 + ")")),
                    (5, stat),
                ],
            )
            fields.append((4, _joined(h, [(1, number), (2, program)])))
    else:
        for number in range(1, kinds + 1):
            of_kind = [(5, _stat(h, stats)) for _ in range(h.one(0, 0, 1, 3))]
            entry = _joined(h, [(1, number), (2, h.text(*EVENTS, *h.names)), *of_kind])
            fields.append((4, _joined(h, [(1, number), (2, entry)])))
        fields += [(3, _line(h, stats, kinds, number)) for number in range(h.one(1, 2, 3, h.count()))]
    for number, stat_name in enumerate(stats, 1):
        fields.append((5, _joined(h, [(1, number), (2, _joined(h, [(1, number), (2, stat_name)]))])))
    return _joined(h, fields)


def _line(h: Hostile, stats: list[str], kinds: int, number: int) -> bytes:
    name = h.text(
        "Stream #1(Kernel,Memcpy)", "XLA Ops", "XLA Modules", "Steps", "python", "tf_xla", f"Stream #{number}"
    )
    fields: list[tuple[int, Any]] = [(1, number), (2, name), (3, _number(h.one(0, 10**18, h.whole(0, 10**9))))]
    offset = 0
    for _ in range(h.count()):
        offset += h.rng.randrange(1000)
        shared = [(4, _stat(h, stats)) for _ in range(h.one(0, 1, 3))]
        own = [
            (1, _number(h.whole(1, kinds))),
            (2, _number(h.whole(offset, offset + 5000))),
            (3, _number(h.whole(0, 9000))),
        ]
        if h.lies():
            own.append((5, 3))
        fields.append((4, _joined(h, [*own, *shared])))
    return _joined(h, fields)


def _stat(h: Hostile, stats: list[str]) -> bytes:
    value: tuple[int, Any] = h.one(
        (3, _number(h.whole(0, 99))),
        (4, _number(h.whole(-9, 99))),
        (2, 0.5),
        (5, h.text(*STAT_TEXTS)),
        (7, _number(h.whole(0, len(stats)))),
    )
    return _joined(h, [(1, h.rng.randint(1, len(stats))), value])


def _module(h: Hostile) -> bytes:
    """Computations that fusions call, a schedule, and stack frames that refer to each other."""
    own = h.one(3, 20, h.count(1), h.count(1, 1500))
    computations = h.one(1, 2, 5, h.count(1, 60) if own < 100 else 3)
    frames = h.one(0, 5, h.count(), h.count(1, 1500))
    content: list[tuple[int, Any]] = [(1, h.text("jit_step"))]
    shared = _instructions(h, own, computations, frames, is_fused=True)
    for number in range(1, computations + 1):
        inside = shared if h.chance(0.7) else _instructions(h, h.one(1, 9), computations, frames, is_fused=True)
        content.append((3, _joined(h, [(1, "fused"), (5, number), (6, h.one(1, own, 10**6)), (7, 1)]) + inside))
    main = _joined(h, [(1, "main"), (5, computations + 1)]) + _instructions(
        h, h.one(own, h.count(1)), computations, frames, is_fused=False
    )
    content.append((3, main))
    order = b"".join(varint(number) for number in range(1, own + 1))
    content.append((7, encode((1, encode((1, computations + 1), (2, encode((1, order))))))))
    stack = [(1, "train.py"), (2, "step"), *((3, _joined(h, [(1, 1), (2, 1), (3, line)])) for line in range(1, 4))]
    stack += [(4, _joined(h, [(1, h.one(1, 2, 3)), (2, _above(h, frame))])) for frame in range(1, frames + 1)]
    content.append((17, encode(*stack)))
    return encode((1, _joined(h, content)))


def _above(h: Hostile, frame: int) -> int:
    """Mostly the frame before, so that stacks become as deep as there are frames; now and then a cycle."""
    return h.one(1, frame, frame + 1) if h.lies() else frame - 1


def _instructions(h: Hostile, count: int, computations: int, frames: int, *, is_fused: bool) -> bytes:
    metadata = _joined(
        h,
        [
            (2, h.text("jit(step)/transpose(jvp(layer0))/attn/dot_general", "", "jit(" * 200)),
            (3, "train.py"),
            (4, 7),
            (15, frames),
        ],
    )
    parts = []
    for number in range(1, count + 1):
        opcode = (
            h.one("add", "parameter", "dot") if is_fused else h.one("fusion", "fusion", "custom-call", "while", "copy")
        )
        called = [
            (38, h.one(1, computations, h.rng.randint(0, computations + 1)))
            for _ in range(0 if is_fused else h.one(1, 1, 3))
        ]
        with_metadata = [(7, metadata)] if h.chance(0.05 if is_fused else 0.5) else []
        parts.append(
            encode(
                (
                    2,
                    encode(
                        (1, f"{opcode}.{number}"), (2, opcode), (35, number), (28, "cublas"), *called, *with_metadata
                    ),
                )
            )
        )
    return b"".join(parts)


def memory_snapshot(h: Hostile) -> Case:
    """A pickle whose lists and dicts are shared, beside a small trace."""
    files = {"trace.json": kineto_text(_calm(h)), "snapshot.pickle": snapshot(h)}
    return Case(files, "trace.json", ("--memory-snapshot", "{snapshot.pickle}"))


def _calm(h: Hostile) -> Hostile:
    """For the file beside the one that lies."""
    calm = Hostile(h.rng)
    calm.rate, calm.size, calm.names = 0.0, (1, 8), ["aten::mm", "gemm"]
    return calm


def snapshot(h: Hostile) -> bytes:
    is_json = h.chance(0.15)
    """Which has no references: what is shared is written again."""
    many = 1 if is_json else 30
    frames = h.repeat(
        lambda number: h.fields(
            filename=h.text("train.py", "torch/nn/modules/module.py"),
            line=h.maybe_wrong(number),
            name=h.text("step", "forward"),
        ),
        h.one(1, 5, h.count(1)),
    )
    stacks = h.repeat(lambda _: frames * h.one(1, 1, 1, many, 10 * many), h.one(1, 3, h.count(1)))
    actions = (
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "oom",
        "snapshot",
        "segment_map",
    )
    address = 0x7F0000000000

    def event(number: int) -> dict[str, Any]:
        stack = h.one(*stacks) if h.chance(0.8) or not frames else [*h.one(*stacks), h.one(*frames)]
        return h.fields(
            action=h.text(*actions),
            addr=h.whole(address, address + 99),
            size=h.whole(0, 1 << 30),
            stream=h.whole(0, 3),
            time_us=h.whole(10**15 + number, 10**15 + number),
            frames=stack,
            device_free=h.whole(0, 1 << 36),
        )

    def block(number: int) -> dict[str, Any]:
        state = h.text("active_allocated", "inactive", "active_awaiting_free")
        return h.fields(
            address=h.whole(address + 512 * number, address + 512 * number),
            size=512,
            requested_size=h.whole(0, 512),
            state=state,
            frames=h.one(*stacks),
            history=[h.fields(real_size=h.whole(0, 512), frames=h.one(*stacks))],
        )

    events, blocks = h.repeat(event), h.repeat(block)
    if h.chance(0.2):
        events, blocks = events * h.one(1, many, 10 * many), blocks * h.one(1, many, 10 * many)
    segment = h.fields(
        device=h.whole(0, 2),
        address=address,
        total_size=h.whole(0, 1 << 34),
        stream=0,
        segment_type=h.text("large", "small"),
        blocks=blocks,
        segment_pool_id=(0, 0),
        is_expandable=h.chance(0.3),
    )
    segments = [segment] * h.one(0, 1, 2, h.one(many, 30 * many) if h.chance(0.2) else 1)
    traces = [events] * h.one(0, 1, 2, h.one(many, 30 * many) if h.chance(0.2) else 1)
    settings = {
        str(h.text("PYTORCH_CUDA_ALLOC_CONF")): h.one(h.whole(), h.odd_text(), {"a": h.whole()})
        for _ in range(h.one(1, 200))
    }
    document = h.fields(segments=segments, device_traces=traces, allocator_settings=settings)
    if is_json:
        return h.packed(h.json(document))
    if h.lies():
        document["segments"] = document  # a cycle
    content = pickle.dumps(document, protocol=h.one(0, 2, 4, 4, 5))
    if h.lies():
        at = h.rng.randrange(len(content))
        content = (
            content[:at]
            + h.one(b"\x94", b"h\0", b"2" * 3000, b"0", b"(", b"]\x94" * 20_000, b"\x8c\xff", b"B\xff\xff\xff\x7f")
            + content[at:]
        )
    return gzip.compress(content, mtime=0) if h.chance(0.6) else content


def proton_tree(h: Hostile) -> Case:
    return Case({"x.hatchet": h.packed(h.json(_tree(h)))}, "x.hatchet")


def proton_msgpack(h: Hostile) -> Case:
    tree = plain(_tree(h, 101), whole_bits=63, with_surrogates=False)
    return Case({"x.hatchet_msgpack": h.packed(msgspec.msgpack.encode(tree))}, "x.hatchet_msgpack")


METRICS = (
    *(
        "time (ns)",
        "count",
        "Time (ns)",
        "flops16",
        "bytes",
        "tokens",
        "tokens (inc)",
        "x (exc)",
        "y (pty)",
        "cpu_time (ns)",
        "cycles",
        "normalized_cycles",
    ),
    *(
        "num_samples",
        "num_stalled_samples",
        "stalled_long_scoreboard",
        "device_id",
        "device_type",
        "a (b) (inc)",
        "m" + " " * 3000 + "(",
        "util (%)",
    ),
)


def _tree(h: Hostile, deepest: int = 280) -> list[Any]:
    shape = h.one("plain", "plain", "wide", "metrics", "deep")
    numbers = iter(range(10**6))
    depth = 40 if shape == "deep" else h.one(1, 3, 6)
    most = {"wide": 3000, "metrics": h.one(300, 2500), "deep": 900}.get(shape, 400)

    def node(level: int) -> dict[str, Any]:
        number = next(numbers)
        metrics: dict[str, Any] = {
            str(h.text(*METRICS)): h.one(h.whole(0, 10**6), h.real(0, 1e6)) for _ in range(h.one(0, 2, 4))
        }
        metrics |= {"time (ns)": h.whole(0, 10**6), "count": h.whole(1, 9)} if h.chance(0.7) else {}
        if shape == "metrics":
            metrics[f"m{number}"] = 1
        children = []
        while level < depth and number < most and h.chance(0.97 if shape == "deep" else 0.7) and len(children) < 8:
            children.append(node(level + 1))
        name = h.text(
            f"k{number}",
            "train.py:3@main",
            "a.py:main@7",
            "<captured_at>",
            "__proton_launch_metadata:x",
            "<metric>",
            *h.names,
        )
        return h.fields(
            frame=h.fields(name=name, type="function"),
            metrics=metrics,
            children=children * h.one(1, 2) if len(children) < 3 and h.lies() else children,
        )

    roots = [node(1) for _ in range(most // 4 if shape in ("wide", "metrics") else h.count())]
    root = h.fields(frame={"name": "ROOT", "type": "function"}, metrics={"count": 0, "time (ns)": 0}, children=roots)
    if shape == "deep" and h.chance(0.5):
        for _ in range(h.one(100, deepest)):
            root = {"children": [root], "frame": {"name": h.one("a", "b")}, "metrics": {"cycles": 5, "count": 1}}
    gpus = {
        str(number): h.fields(
            arch=h.text("90", "gfx942", "9" * 60),
            bus_width=h.whole(0, 5120),
            clock_rate=h.whole(0, 10**6),
            memory_clock_rate=h.whole(0, 10**6),
            num_sms=h.whole(1, 132),
            name=h.text("NVIDIA H100"),
        )
        for number in range(h.one(1, 1, h.count()))
    }
    return [root, {str(h.text("CUDA", "HIP")): gpus}] if not h.lies() else [root] * 3


FORMATS: dict[str, Callable[[Hostile], Case]] = {
    "xplane": xplane,
    "memory snapshot": memory_snapshot,
    "proton tree": proton_tree,
    "proton msgpack": proton_msgpack,
}
