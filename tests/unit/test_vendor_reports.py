"""Binary reports of NVIDIA's: read where a tool of theirs is, of which there are fakes here; else one sentence."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import nsys_files
import warplens
from support import ROOT, is_running, wait_until
from warplens.readers.shared import vendor_tool
from warplens_run.base.errors import FormatError

NCU_REPORT = b"NVR\0\x02\0\0\0\x08\x07"
NSYS_REPORT = b"NVIDIA Tegra Profiler Report 2.0"
PAGES = {
    name: gzip.decompress((ROOT / "samples" / "ncu" / f"kernels_{name}.csv.gz").read_bytes()).decode()
    for name in ("raw", "details", "sass", "lines")
}
Tool = Callable[[str, str], Path]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Makes a program of Python code that is the only one of its name on the path; `log` beside it has its calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, code: str) -> Path:
        program = folder / name
        log = f"import sys\nopen({str(folder / 'log')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        program.write_text(f"#!{sys.executable}\n{log}{code}")
        program.chmod(0o755)
        return program

    return make


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def ncu_code(pages: dict[str, str], folder: Path) -> str:
    """A program that prints these pages, as `ncu --import` does."""
    for name, text in pages.items():
        (folder / f"{name}.csv").write_text(text)
    return f"""
args = sys.argv[1:]
assert open(args[args.index("--import") + 1], "rb").read() == {NCU_REPORT!r}
page = args[args.index("--page") + 1]
if page == "source":
    page = {{"sass": "sass", "cuda,sass": "lines"}}[args[args.index("--print-source") + 1]]
try:
    sys.stdout.write(open({str(folder)!r} + "/" + page + ".csv").read())
except OSError:
    sys.exit("==ERROR== Unsupported source view combination.")
"""


def report(folder: Path, content: bytes, name: str) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_report_of_kernels_has_all_that_its_pages_have(tool: Tool, tmp_path: Path) -> None:
    tool("ncu", ncu_code(PAGES, tmp_path))
    profile = warplens.open(report(tmp_path, NCU_REPORT, "x.ncu-rep"), cache=False)
    counters = profile.table("counters").frame
    assert counters.select("kernel", "process").rows()[0] == ("matmul_kernel", 2487)
    assert counters["time_us"].sum() == pytest.approx(75.744, abs=0.02)
    assert len(profile.table("counter_rules")) == 47
    instructions = profile.table("counter_instructions").frame
    assert instructions.group_by("kernel").len().sort("kernel")["len"].to_list() == [840, 464, 1048, 296]
    stalls = profile.table("stalls").frame
    assert stalls["samples"].sum() == 428 + 2788 + 1687 + 546
    assert stalls.filter(pl.col("line").is_null())["kernel"].to_list() == ["nvjet_sm90_hsh_128x64_64x8_1x2_h_bz_NNT"]


def test_a_packed_report_is_one_too(tool: Tool, tmp_path: Path) -> None:
    tool("ncu", ncu_code(PAGES, tmp_path))
    path = report(tmp_path, gzip.compress(NCU_REPORT), "x.ncu-rep.gz")
    assert len(warplens.open(path, cache=False).table("counters")) == 4


def test_a_version_without_a_view_of_the_source_leaves_the_counters_and_a_note(tool: Tool, tmp_path: Path) -> None:
    tool("ncu", ncu_code({name: PAGES[name] for name in ("raw", "details", "sass")}, tmp_path))
    profile = warplens.open(report(tmp_path, NCU_REPORT, "x.ncu-rep"), cache=False)
    assert len(profile.table("counters")) == 4 and len(profile.table("counter_instructions")) == 2648
    (note,) = profile.table("quality").frame.filter(code="report_part")["message"]
    assert "Unsupported source view combination" in note


NCU_MODULE = """
NameBase_DEMANGLED = 1

class Enum:
    def __init__(self, number): self.name = ["NONE", "OK", "OPTIMIZATION", "WARNING"][number]
class Speedup:
    def __init__(self, number): self.name = ["UNKNOWN", "LOCAL", "GLOBAL"][number]
MsgType, SpeedupType = Enum, Speedup

class Ids:
    def as_uint64(self, at): return 0x700 + 16 * at
class Metric:
    def __init__(self, value, unit="", instances=()): self._value, self._unit, self._instances = value, unit, instances
    def value(self): return self._value
    def unit(self): return self._unit
    def has_value(self): return self._value is not None
    def num_instances(self): return len(self._instances)
    def has_correlation_ids(self): return True
    def correlation_ids(self): return Ids()
    def as_uint64(self, at): return self._instances[at]
class Source:
    def __init__(self, line): self._line = line
    def file_name(self): return "/w/k.py"
    def line(self): return self._line
STALL = "smsp__pcsamp_warps_issue_stalled_"
METRICS = {
    "gpu__time_duration.sum": Metric(12416.0, "ns"),
    "device__attribute_display_name": Metric("NVIDIA H200"),
    "device__attribute_compute_capability_major": Metric(9),
    "device__attribute_compute_capability_minor": Metric(0),
    "device__attribute_device_index": Metric(0),
    "launch__stream_id": Metric(7),
    "launch__grid_dim_x": Metric(8), "launch__grid_dim_y": Metric(8), "launch__grid_dim_z": Metric(1),
    "inst_executed": Metric(96, "inst", (32, 32, 32)),
    "thread_inst_executed_true": Metric(2560, "inst", (1024, 1024, 512)),
    "smsp__pcsamp_sample_count": Metric(16, "", (9, 7, 0)),
    STALL + "warpgroup_arrive": Metric(9, "warp", (9, 0, 0)),
    STALL + "warpgroup_arrive_not_issued": Metric(8, "warp", (8, 0, 0)),
    STALL + "selected": Metric(7, "warp", (0, 7, 0)),
}
class Action:
    NameBase_DEMANGLED = 1
    def name(self, base): return "matmul_kernel"
    def metric_names(self): return list(METRICS)
    def metric_by_name(self, name): return METRICS[name]
    def source_info(self, address): return None if address == 0x720 else Source(2 if address == 0x700 else 3)
    def sass_by_pc(self, address): return "   WGMMA  "
    def source_files(self): return {"/w/k.py": "first\\n  second\\nthird\\n"}
    def rule_results_as_dicts(self):
        return [{"rule_identifier": "SlowMma", "section_identifier": "Sol",
                 "rule_message": {"title": "", "message": "waits", "type": 2},
                 "speedup_estimation": {"type": 2, "speedup": 12.5}}]
class Range:
    def num_actions(self): return 1
    def action_by_idx(self, at): return Action()
class Report:
    def num_ranges(self): return 1
    def range_by_idx(self, at): return Range()
def load_report(path):
    assert open(path, "rb").read(3) == b"NVR"
    return Report()
"""


def test_nvidias_module_reads_a_report_where_there_is_no_ncu(
    no_tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "extras" / "python"
    folder.mkdir(parents=True)
    (folder / "ncu_report.py").write_text(NCU_MODULE)
    monkeypatch.syspath_prepend(str(folder))
    profile = warplens.open(report(tmp_path, NCU_REPORT, "x.ncu-rep"), cache=False)
    counters = profile.table("counters").frame.select("kernel", "device", "stream", "grid", "time_us", "top_stall")
    assert counters.rows() == [("matmul_kernel", 0, 7, "[8, 8, 1]", 12.416, "gmma")]
    stalls = profile.table("stalls").frame.select("line", "source", "samples", "stalled_samples", "top_stall")
    assert stalls.rows() == [(2, "second", 9, 9, "gmma"), (3, "third", 7, 0, None)]
    threads = profile.table("counter_instructions").frame.sort("address").select("executed", "threads", "line")
    assert threads.rows() == [(32, 32.0, 2), (32, 32.0, 3), (32, 16.0, None)]
    rule = profile.table("counter_rules").frame.select("rule", "kind", "estimated_speedup_percent", "speedup_type")
    assert rule.rows() == [("SlowMma", "OPT", 12.5, "global")]
    assert "ncu_report" not in sys.modules, "it is imported in a process of its own"


def test_a_trace_takes_a_report_for_its_kernels(tool: Tool, tmp_path: Path) -> None:
    tool("ncu", ncu_code(PAGES, tmp_path))
    trace = ROOT / "samples" / "ncu" / "ops_trace.json.gz"
    profile = warplens.open(trace, cache=False, ncu=[report(tmp_path, NCU_REPORT, "x.ncu-rep")])
    assert "0 of 4 profiled kernels" in profile.table("measured_kernels").notes[0]


@pytest.mark.parametrize(("content", "hint"), [
    (NCU_REPORT, "ncu --page raw --csv --import"),
    (NSYS_REPORT, "nsys export --type sqlite"),
])  # fmt: skip
def test_without_a_tool_of_theirs_the_command_that_exports_it_is_named(
    no_tools: None, tmp_path: Path, content: bytes, hint: str
) -> None:
    with pytest.raises(FormatError, match="which only NVIDIA's tools can read") as raised:
        warplens.open(report(tmp_path, content, "report"), cache=False)
    assert hint in str(raised.value.hint)


def test_a_tool_that_fails_is_one_line_with_its_own_words(tool: Tool, tmp_path: Path) -> None:
    tool("ncu", "sys.exit('==PROF== x\\n==ERROR== Failed to load report file\\n\\n')")
    with pytest.raises(FormatError, match=r"ncu cannot read it: ==ERROR== Failed to load report file$") as raised:
        warplens.open(report(tmp_path, NCU_REPORT, "x.ncu-rep"), cache=False)
    assert raised.value.hint


def test_a_report_without_kernels_says_so(tool: Tool, tmp_path: Path) -> None:
    tool("ncu", "print('==PROF== nothing here')")
    with pytest.raises(FormatError, match="of which ncu prints no kernels"):
        warplens.open(report(tmp_path, NCU_REPORT, "x.ncu-rep"), cache=False)


def test_a_tool_that_hangs_is_ended_with_what_it_started(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's programs are scripts that start another one."""
    child = tmp_path / "child"
    program = f"import os, time; open({str(child)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    tool("ncu", f"import subprocess\nsubprocess.run([sys.executable, '-c', {program!r}])")
    monkeypatch.setattr(vendor_tool, "TOOL_SECONDS", 2.0)
    with pytest.raises(FormatError, match="ncu did not end within 2 s"):
        warplens.open(report(tmp_path, NCU_REPORT, "x.ncu-rep"), cache=False)
    wait_until(lambda: not is_running(int(child.read_text())))


def test_nsys_exports_a_report_of_its_own(tool: Tool, tmp_path: Path) -> None:
    database = nsys_files.training_step().write(tmp_path / "made.sqlite")
    copy = f"import shutil\nshutil.copy({str(database)!r}, sys.argv[sys.argv.index('--output') + 1])"
    nsys = tool("nsys", copy)
    opened = warplens.open(report(tmp_path, NSYS_REPORT, "run.nsys-rep"), cache=False)
    exported = warplens.open(database, cache=False)
    assert opened.table("kernels").to_dicts() == exported.table("kernels").to_dicts() != []
    assert opened.source.endswith("run.nsys-rep")
    assert (nsys.parent / "log").read_text().startswith("export --type sqlite --output ")


def test_nsys_that_writes_nothing_is_one_line(tool: Tool, tmp_path: Path) -> None:
    tool("nsys", "")
    with pytest.raises(FormatError, match="nsys wrote no export of it"):
        warplens.open(report(tmp_path, NSYS_REPORT, "run.nsys-rep"), cache=False)
