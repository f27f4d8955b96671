"""Formats of tables: SQLite files of Nsight Systems and rocprofv3, and CSV pages of Nsight Compute."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
import struct
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nsys_files
import rocpd_files
from grammar.values import TOKENS, Case, Hostile, plain
from support import ROOT

NCU = ROOT / "samples" / "ncu"
PAGES = ("ncu_raw.csv.gz", "ncu_details.csv.gz", "kernels_raw.csv.gz", "kernels_lines.csv.gz", "kernels_sass.csv.gz")
NCU_NUMBERS = (
    "0",
    "12.5",
    "1,234",
    "1.234,5",
    "1e999",
    "nan",
    "inf",
    "-1",
    "",
    "9" * 29,
    "9" * 5000,
    "(!) n/a",
    "0.1 (0.1; 0.2)",
    "0x10",
    "١",
    "1'000",
)


def nsys(h: Hostile) -> Case:
    file = nsys_files.NsysFile()
    for number in range(h.one(0, 1, 1, 2, h.count())):
        file.gpu(
            h.maybe_wrong(number),
            h.text("NVIDIA H100 80GB HBM3"),
            smCount=h.whole(1, 132),
            computeMajor=h.whole(3, 12),
            computeMinor=h.whole(0, 9),
            totalMemory=h.whole(0, 1 << 37),
        )
    start = nsys_files.BOOT
    for number in range(h.count(1)):
        start += h.rng.randrange(9000)
        begin, end = h.whole(start, start), h.whole(start, start + 5000)
        gpu = {
            "deviceId": h.whole(0, 1),
            "streamId": h.whole(0, 9),
            "gridX": h.whole(0, 9),
            "registersPerThread": h.whole(0, 255),
            "dynamicSharedMemory": h.whole(0, 1 << 17),
            "globalPid": h.whole(nsys_files.global_id(1), nsys_files.global_id(1))
            if h.lies()
            else nsys_files.global_id(nsys_files.PID),
        }
        file.call(
            _word(h, "cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000", "cudaMemcpyAsync_v3020"),
            begin,
            end,
            number,
            pid=nsys_files.PID,
            tid=h.rng.randrange(1, 4),
        )
        kind = h.rng.randrange(7)
        if kind < 3:
            file.kernel(_word(h), begin, end, number, **gpu, graphNodeId=h.whole(0, 9))
        elif kind == 3:
            file.copy(
                h.whole(0, 13), begin, end, h.whole(0, 1 << 30), number, srcKind=h.whole(0, 7), dstKind=h.whole(0, 7)
            )
        elif kind == 4:
            file.memset(begin, end, h.whole(0, 1 << 20), number)
        elif kind == 5:
            file.graph(h.rng.randint(1, 3), begin, end, number)
        else:
            file.range(
                h.text("step 0", "forward"),
                begin,
                end,
                domainId=h.whole(0, 2),
                eventType=h.one(59, 60, 34, 75),
                textId=h.whole(1, 9),
            )
    for number in range(h.one(0, 0, 1, h.count())):
        samples = {nsys_files.BOOT + 1000 * at: h.whole(0, 100) for at in range(h.count())}
        file.metric(
            number,
            _word(h, "SMs Active [Throughput %]", "DRAM Read Bandwidth [GB/s]"),
            {at: _cell(value) for at, value in samples.items()},
        )
    file.domain(1, "NCCL")
    file.add("PROCESSES", globalPid=nsys_files.global_id(nsys_files.PID), pid=h.whole(1, 99), name=h.text("python3"))
    file.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value=h.text("2024.6.2.225"))
    return Case({"x.sqlite": _database(h, file.rows, file.write)}, "x.sqlite")


def _word(h: Hostile, *usual: str) -> str:
    value = h.text(*usual)
    return value if isinstance(value, str) else "x"


def rocpd(h: Hostile) -> Case:
    file = rocpd_files.RocpdFile()
    start = rocpd_files.BOOT
    for number in range(h.one(0, 0, h.count())):
        facts = h.one(
            '{"cu_count": 304, "wave_front_size": 64}',
            '{"cu_count": ' + h.one(*TOKENS) + "}",
            "{",
            '{"wave_front_size": -1}',
            "null",
        )
        file.add(
            "rocpd_info_agent",
            id=6 + number,
            type=h.text("GPU", "CPU"),
            type_index=h.whole(0, 9),
            name=h.text("gfx942"),
            product_name=h.text(),
            extdata=facts,
        )
        file.add(
            "rocpd_info_kernel_symbol",
            id=4 + number,
            kernel_name=h.text("a.kd"),
            display_name=h.text(),
            arch_vgpr_count=h.whole(0, 512),
        )
        file.add("rocpd_info_thread", id=h.rng.randrange(10**6), nid=1, pid=1, tid=h.whole(1, 9), name=h.text("main"))
    for number in range(1, h.count(1) + 1):
        start += h.rng.randrange(9000)
        begin, end = h.whole(start, start), h.whole(start, start + 5000)
        kind = h.rng.randrange(4)
        if kind < 2:
            file.dispatch(
                begin,
                end,
                number,
                agent_id=h.whole(4, 6),
                kernel_id=h.whole(3, 4),
                queue_id=h.whole(0, 3),
                workgroup_size_x=h.whole(0, 1024),
                grid_size_x=h.whole(0, 1 << 20),
            )
        elif kind == 2:
            file.copy(
                _word(h, "MEMORY_COPY_HOST_TO_DEVICE"),
                begin,
                end,
                h.whole(0, 1 << 30),
                number,
                source=h.rng.randrange(6),
                target=h.rng.randrange(6),
            )
        else:
            file.region(
                _word(h, "MARKER_CORE_RANGE_API", "HIP_RUNTIME_API", "HSA_CORE_API", "RCCL_API"),
                _word(h, "hipLaunchKernel"),
                begin,
                end,
                number,
                _word(h, "forward", ""),
            )
    file.rows["rocpd_info_process"][0]["pid"] = h.whole(1, 99)
    if h.lies():
        file.rows["rocpd_info_agent"][-1] |= {"type_index": h.maybe_wrong(1)}

    return Case({"x.db": _database(h, file.rows, file.write)}, "x.db")


def _cell(value: Any) -> Any:
    """What a cell can hold."""
    value = plain(value, whole_bits=63, with_surrogates=False)
    if isinstance(value, float) and value != value:
        return None
    return value if value is None or isinstance(value, (int, float, str, bytes)) else repr(value)


def _database(h: Hostile, rows: dict[str, list[dict[str, Any]]], write: Callable[[Path], object]) -> bytes:
    for table in rows.values():
        for row in table:
            for name in row:
                row[name] = _cell(h.maybe_wrong(row[name]) if name not in ("id",) else row[name])
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.sqlite")
        with contextlib.suppress(sqlite3.IntegrityError):  # of two rows with one key the tables before them are there
            write(path)
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=OFF")
        for statement in _statements(h, connection) if h.lies() else ():
            try:
                connection.execute(statement)
            except sqlite3.Error:
                continue
        connection.commit()
        connection.close()
        content = path.read_bytes()
    return h.packed(_other_pages(h, content) if h.lies() else content)


def _statements(h: Hostile, connection: sqlite3.Connection) -> list[str]:
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    table = h.one(*tables)
    return [
        h.one(
            f'DROP TABLE "{table}"',
            f'DELETE FROM "{table}"',
            f'ALTER TABLE "{table}" RENAME TO "{table}_x"',
            f'ALTER TABLE "{table}" ADD COLUMN extra TEXT DEFAULT (zeroblob(9))',
            f'CREATE INDEX i ON "{table}" (1)',
            f'INSERT INTO "{table}" SELECT * FROM "{table}"',
            f'CREATE VIEW v AS SELECT * FROM "{table}" a, "{table}" b, "{table}" c',
            "CREATE TABLE StringIdsX (id, value GENERATED ALWAYS AS (printf('%*d', 100000, 1)))",
            f'CREATE TABLE "{table}_y" AS SELECT * FROM "{table}"',
        )
        for _ in range(h.one(1, 3))
    ]


def _other_pages(h: Hostile, content: bytes) -> bytes:
    """Numbers of pages and of cells that lie: B-trees that loop or share their pages."""
    changed = bytearray(content)
    size = struct.unpack(">H", content[16:18])[0] or 65536
    pages = len(content) // size
    for _ in range(h.one(1, 2, 8)):
        page = h.rng.randrange(pages)
        base = page * size + (100 if page == 0 else 0)
        kind = h.rng.randrange(4)
        if kind == 0:  # the right-most child, or the first cell of an interior page
            changed[base] = h.one(5, 2, 13, 10)
            changed[base + 8 : base + 12] = struct.pack(">I", h.rng.randint(0, pages + 1))
        elif kind == 1:
            changed[base + 3 : base + 5] = struct.pack(">H", h.one(0, 1, 500, 65535))
        elif kind == 2:
            at = base + 8 + 2 * h.rng.randrange(20)
            changed[at : at + 2] = struct.pack(">H", h.rng.randrange(min(size, 65535)))
        else:
            at = page * size + h.rng.randrange(size - 4)
            changed[at : at + 4] = struct.pack(">I", h.rng.randint(0, pages + 1))
    return bytes(changed)


@lru_cache
def _page(name: str) -> list[str]:
    return gzip.decompress(NCU.joinpath(name).read_bytes()).decode().splitlines()


@lru_cache
def _traced() -> bytes:
    return NCU.joinpath("ops_trace.json.gz").read_bytes()


def ncu(h: Hostile) -> Case:
    """A page on its own, or beside the trace."""
    name = h.one(*PAGES)
    lines = _page(name)[: h.one(3, 10, 40, 150)]
    kept = 1 if "lines" not in name and "sass" not in name else 3
    rows = [_row(h, line, at < kept) for at, line in enumerate(lines)]
    rows = rows[:kept] + h.repeat(lambda at: rows[kept + at], len(rows) - kept)
    if h.lies():
        rows.insert(
            h.rng.randrange(len(rows) + 1),
            h.one("==PROF== Connected", "==ERROR== x", '"', rows[0], "\0", h.odd_text().replace("\n", " ")),
        )
    text = h.one("\n", "\n", "\r\n").join(rows)
    content = h.packed(
        h.one(text.encode("utf-8", "replace"), text.encode("utf-8", "replace"), text.encode("utf-16", "replace"))
    )
    if h.chance(0.4):
        return Case({"page.csv": content}, "page.csv", verbs="paths")
    return Case({"trace.json.gz": _traced(), "page.csv": content}, "trace.json.gz", ("--ncu", "{page.csv}"))


def _row(h: Hostile, line: str, is_head: bool) -> str:
    cells = line.split('","')
    for at in range(len(cells)):
        if h.lies() and (not is_head or h.chance(0.05)):
            cells[at] = h.one(*NCU_NUMBERS, *NCU_NUMBERS, h.odd_text().replace("\n", " "))
    if h.lies():
        cells = cells[: h.rng.randrange(len(cells) + 1)] if h.chance(0.5) else cells * 2
    return '","'.join(cells)


FORMATS: dict[str, Callable[[Hostile], Case]] = {"nsys": nsys, "rocpd": rocpd, "ncu": ncu}
