"""Files of files: capture bundles, folders of ranks, captures of graphs, archives; and Warplens' own documents."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any

import mutant_subjects as sound
from grammar.binary import snapshot
from grammar.events import execution_trace, kineto_text
from grammar.values import Case, Hostile, zipped

KERNELS = sound.FOLDER / "kernels"
HEADER, ARRAYS = "header.json", "arrays.bin"


def bundle(h: Hostile) -> Case:
    members = _members(h)
    if h.lies():
        members = {h.one(name, f"../{name}", f"run/{name}", name.upper()): content for name, content in members.items()}
    if h.chance(0.15):
        return Case({f"run/{name}": content for name, content in members.items() if ".." not in name}, "run")
    return Case({"run.zip": _archive(h, members)}, "run.zip")


def _members(h: Hostile) -> dict[str, bytes]:
    members = {"trace.json.gz": gzip.compress(kineto_text(h, h.one(None, 0)), mtime=0)}
    optional: dict[str, Callable[[], bytes]] = {
        "timing.json": lambda: h.json(_timing(h)),
        "light.json.gz": lambda: gzip.compress(kineto_text(h), mtime=0),
        "environment.json": lambda: h.json(
            h.echo(
                {
                    "torch": "2.13.0",
                    "packages": {"torch": "2.13.0", "triton": "3.4"},
                    "gpus": [{"name": "NVIDIA H200"}],
                    "clocks": {"start": [{"driver_version": "580", "sm_mhz": 1980}]},
                }
            )
        ),
        "counters.json": lambda: h.json(_counters(h)),
        "triton_launches.json": lambda: h.json(_launches(h)),
        "memory_snapshot.pickle.gz": lambda: snapshot(h),
        "memory.json": lambda: h.json(_memory_facts(h)),
        "execution_trace.json.gz": lambda: gzip.compress(execution_trace(h).files["calls.json"], mtime=0),
        "execution_step.json.gz": lambda: gzip.compress(kineto_text(h), mtime=0),
        "graph_captures/captures.json": lambda: h.json(_capture_index(h)),
        "graph_captures/0.json": lambda: kineto_text(h),
        "kernels/sampled_lines.json": lambda: h.json({"k.py": {str(h.whole()): h.text() for _ in range(h.count())}}),
        "kernels/launched/a.py": lambda: b"def k(x_ptr): pass\n",
    }
    for name in h.rng.sample(list(optional), h.rng.randrange(len(optional))):
        members[name] = optional[name]()
    files = {
        name: h.fields(bytes=len(content), sha256=sha256(content).hexdigest()) for name, content in members.items()
    }
    manifest = h.fields(
        format="warplens-bundle",
        version=1,
        created="2026-11-16T14:13:04Z",
        warplens="0.1.0",
        command=[h.text("python"), h.text("train.py")],
        backend=h.text("torch"),
        data="trace",
        context="shadow",
        rank=h.whole(0, 3),
        world_size=h.whole(1, 8),
        seconds=h.real(0, 9),
        steps_marked=h.whole(0, 33),
        steps_recorded=h.whole(0, 3),
        gpu=True,
        status=h.text("complete", "failed"),
        notes=h.repeat(lambda _: h.text("a note")),
        files=h.maybe_wrong(files),
        error=h.text("", "ValueError: a. b. c"),
        exit_code=h.whole(0, 1),
        steps_found_by=h.text("program", "optimizer"),
    )
    return {"manifest.json": h.json(manifest), **members}


def _timing(h: Hostile) -> dict[str, Any]:
    windows = h.repeat(
        lambda _: h.fields(
            position=h.text("before", "after"),
            steps=h.whole(1, 9),
            seconds=h.real(0.001, 9),
            step_seconds=h.repeat(lambda _: h.real(0, 1)),
            start_ns=h.whole(0, 2 * 10**18),
        )
    )
    return h.fields(
        version=1, windows=windows, light_marks_ns=h.repeat(lambda number: h.whole(number, 10**6 * number + 9))
    )


def _counters(h: Hostile) -> dict[str, Any]:
    length = h.count()
    columns = (
        "power_w",
        "sm_clock_mhz",
        "memory_clock_mhz",
        "gpu_busy_percent",
        "memory_busy_percent",
        "temperature_c",
        "memory_used_bytes",
    )

    def gpu(number: int) -> dict[str, Any]:
        times = [h.whole(10**18 + at, 10**18 + at) for at in range(length)]
        readings = {column: [h.one(None, h.real(0, 700)) for _ in times] for column in columns}
        return h.fields(
            device=number,
            name=h.text("NVIDIA H200"),
            power_limit_w=h.real(1, 700),
            max_sm_clock_mhz=h.real(1, 1980),
            times_ns=times,
            **readings,
            clock_reasons=[h.one(None, h.whole(0, 512)) for _ in times],
            energy=[[time, h.real(0, 1e6)] for time in times],
        )

    return h.fields(version=1, interval_ms=20.0, gpus=h.repeat(gpu, h.one(1, 2, h.count(0, 20))))


def _launches(h: Hostile) -> dict[str, Any]:
    """Many kernels of one name, launched in one long order."""
    kernels = h.repeat(
        lambda number: h.fields(
            name=h.text(f"k{number}", *h.names),
            function=h.text("k"),
            parameters=["x_ptr", "n"],
            options={"num_warps": h.whole(1, 8)},
            source=h.text("", "a.py"),
            ttir="",
            tuned=[],
        ),
        h.one(1, 3, h.count(1)),
    )
    argument = h.fields(
        kind=h.text("tensor", "int", "none"),
        value=h.whole(),
        shape=[h.whole(0, 99)],
        stride=[1],
        dtype=h.text("float32"),
        storage=h.whole(0, 9),
        bytes=h.whole(0, 99),
        items=[],
    )
    launches = h.repeat(
        lambda _: h.fields(
            kernel=h.numbered(len(kernels)),
            grid=[h.whole(1, 9)] * h.one(0, 1, 3, 9),
            arguments=[argument] * h.one(0, 1, 3),
        ),
        h.one(1, 5, h.count(1)),
    )
    return h.fields(
        version=1,
        kernels=kernels,
        launches=launches,
        order=h.repeat(lambda _: h.numbered(len(launches)), h.one(1, h.count(), 30_000 if h.chance(0.2) else 9)),
    )


def _memory_facts(h: Hostile) -> dict[str, Any]:
    tensors = h.repeat(
        lambda number: h.fields(
            kind=h.text("parameter", "gradient", "optimizer", "buffer"),
            address=h.whole(0x7F0000000000, 0x7F0000000000 + 99),
            device=h.whole(0, 1),
            name=h.text(f"layer{number}.weight"),
            module=h.text("GPT.layers.0"),
            classes=h.text("GPT/Block_0", ""),
            state=h.text("", "exp_avg"),
            bytes=h.whole(0, 1 << 30),
            time_ns=h.whole(0, 2 * 10**18),
        )
    )
    statistics = {
        name: h.whole(0, 1 << 40) for name in ("active_bytes.all.allocated", "reserved_bytes.all.peak", "num_ooms")
    }
    device = h.fields(
        max_memory_allocated=h.whole(0, 1 << 40),
        max_memory_reserved=h.whole(0, 1 << 40),
        start=statistics,
        blocks=h.repeat(lambda _: [h.whole(0, 1 << 47), h.whole(0, 1 << 30)]),
    )
    return h.fields(
        version=1,
        devices={"0": device, str(h.text("1")): device},
        tensors=tensors,
        window_ns=[h.whole(0, 10**18), h.whole(0, 2 * 10**18)],
    )


def _capture_index(h: Hostile) -> dict[str, Any]:
    captures = h.repeat(
        lambda number: h.fields(
            number=number,
            file=h.text("0.json"),
            start_ns=h.whole(0, 10**18),
            end_ns=h.whole(0, 10**18),
            graph_id=h.one(None, h.whole()),
        )
    )
    return h.fields(version=1, captures=captures, replays=h.repeat(lambda _: [h.whole(), h.whole(), h.whole()]))


def _archive(h: Hostile, members: dict[str, bytes]) -> bytes:
    """A zip file whose sizes, offsets and names may lie."""
    content = zipped(members)
    if not h.lies():
        return content
    changed = bytearray(content)
    kind = h.rng.randrange(5)
    if kind == 0:  # the sizes of a member in the directory
        at = content.rfind(b"PK\1\2")
        changed[at + 20 : at + 28] = struct.pack("<II", *(h.one(0, 9, 0xFFFFFFFE, 0xFFFFFFFF) for _ in range(2)))
    elif kind == 1:  # every member is the first
        at = content.find(b"PK\1\2")
        while at >= 0:
            changed[at + 42 : at + 46] = b"\0\0\0\0"
            at = content.find(b"PK\1\2", at + 4)
    elif kind == 2:
        end = content.rfind(b"PK\5\6")
        changed[end + 8 : end + 12] = struct.pack("<HH", 65535, h.one(0, 65535))
    elif kind == 3:
        buffer = io.BytesIO(content)
        with zipfile.ZipFile(buffer, "a") as archive:
            for name in h.rng.sample(list(members), 1) * h.one(1, 300):
                archive.filelist.append(archive.getinfo(name))
        return buffer.getvalue()
    else:
        at = h.rng.randrange(len(changed))
        changed[at : at + 4] = h.rng.randbytes(4)
    return bytes(changed)


def archive(h: Hostile) -> Case:
    """A trace within packings within packings, and bombs of them."""
    content = h.one(
        kineto_text(h),
        b" " * h.one(10**6, 2 * 10**7),
        b"[" * 10**6,
        b'{"traceEvents":[' + b'{"ph":"X"},' * h.one(9, 300_000),
    )
    for _ in range(h.one(1, 2, 3, 12)):
        content = h.one(
            lambda text: gzip.compress(text, mtime=0),
            lambda text: _archive(h, {h.one("trace.json", "a"): text}),
            lambda text: _tar(h, text),
            lambda text: gzip.compress(text, mtime=0) * h.one(1, 3),
        )(content)
    return Case({"x.gz": content}, "x.gz")


def _tar(h: Hostile, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=h.one(tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)) as archive:
        for number in range(h.one(1, 1, 3, 300)):
            member = tarfile.TarInfo(h.one("trace.json", "notes.txt", "a" * 300, f"f{number}"))
            member.size = len(content) if number == 0 else 0
            archive.addfile(member, io.BytesIO(content))
    changed = bytearray(buffer.getvalue())
    if h.lies():
        changed[124:136] = h.one(b"77777777777\0", b"\x80" + b"\xff" * 11, b"00000000000\0", b"-0000000001\0")
    return bytes(changed)


def job(h: Hostile) -> Case:
    """The ranks of a job, some of which are other things."""
    files: dict[str, bytes] = {}
    for rank in range(h.one(2, 2, 3, 4)):
        content = kineto_text(h, h.one(rank, rank, rank, 0, None))
        content = h.one(b"", b"{}", bundle(h).files.get("run.zip", b""), h.rng.randbytes(300)) if h.lies() else content
        files[
            h.one(
                f"job/rank{rank}.json", f"job/rank_{rank}/trace.json", f"job/x.rank{rank}.json.gz", f"job/{rank}.json"
            )
        ] = h.one(content, gzip.compress(content, mtime=0))
    return Case(files, "job", verbs="job")


def graph_capture(h: Hostile) -> Case:
    return Case(
        {
            "trace.json": kineto_text(h),
            "captures/0.json": kineto_text(h),
            "captures/captures.json": h.json(_capture_index(h)),
        },
        "trace.json",
        ("--graph-capture", "{captures}"),
    )


def _of(value: Callable[[], Any], name: str, verbs: str) -> Callable[[Hostile], Case]:
    return lambda h: Case(
        {name: h.packed(h.json(h.echo(value()))) if verbs == "trace" else h.json(h.echo(value()))}, name, verbs=verbs
    )


def proof(h: Hostile) -> Case:
    trace = sound.FOLDER / "execution_trace" / "mlp_train.json.gz"
    return Case(
        {"trace.json.gz": trace.read_bytes(), "proof.json": h.json(h.echo(sound.proof_json()))},
        "trace.json.gz",
        ("--proof", "{proof.json}"),
        "proof",
    )


def replayed(h: Hostile) -> Case:
    """A result beside the trace that it is of."""
    trace = sound.FOLDER / "replay" / "gpt2_compiled.json.gz"
    return Case(
        {"trace.json.gz": trace.read_bytes(), "result.json": h.json(h.echo(_result()))},
        "trace.json.gz",
        ("--replay", "{result.json}"),
        "result",
    )


@lru_cache
def _result() -> Any:
    return sound.document("replay", "gpt2_compiled.result.json.gz")


@lru_cache
def _facts() -> Any:
    return json.loads(KERNELS.joinpath("slow_softmax.facts.json").read_bytes())


@lru_cache
def _kernel_trace() -> dict[str, bytes]:
    with zipfile.ZipFile(KERNELS / "slow_softmax.wkt") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def kernel_trace(h: Hostile) -> Case:
    members = _kernel_trace()
    arrays = members[ARRAYS]
    if h.lies():
        arrays = arrays[: h.rng.randrange(len(arrays))] + h.rng.randbytes(h.one(0, 8, 800))
    return Case(
        {"k.wkt": _archive(h, {HEADER: h.json(h.echo(json.loads(members[HEADER]))), ARRAYS: arrays})},
        "k.wkt",
        verbs="tables",
    )


FORMATS: dict[str, Callable[[Hostile], Case]] = {
    "bundle": bundle,
    "archive": archive,
    "job": job,
    "graph capture": graph_capture,
    "replay plan": _of(sound.plan_json, "plan.json", "plan"),
    "replay result": replayed,
    "proof plan": _of(sound.proof_plan_json, "plan.json", "proof plan"),
    "proof": proof,
    "kernel facts": _of(_facts, "k.facts.json", "tables"),
    "kernel trace": kernel_trace,
}
