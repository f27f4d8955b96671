"""The command line, as a user runs it, on the bundled samples and on a small trace; processes where they matter."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from support import HANG_SECONDS, ROOT, SAMPLES, RunInside, frame, kernel, launch, op, run_python, write_trace
from warplens import native_library
from warplens.advice import RULES
from warplens.advice.rank_rules import JOB_RULES
from warplens.categories import category_names
from warplens.cli import main
from warplens.cli.explaining import topics as cli_topics
from warplens.cli.verbs import PLACES
from warplens.model.quality import MESSAGES
from warplens.model.trace import empty_trace
from warplens.profiles.trace import TABLE_NAMES
from warplens_lab.cli.topics import kernel_tables
from warplens_lab.suggesting.rules import RULES as KERNEL_RULES
from warplens_lab.tracing.records import FAULT_KINDS
from warplens_run.cli.main import PLACES as PLACES_OF_RUNNER
from warplens_run.cli.verb import VerbGroup, help_text

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
LARGE = next(path for path in SAMPLES if path.name == "bloom_prefill.json.gz")
ESCAPE = "\x1b"
Printed = Callable[..., str]
Rows = Callable[..., list[dict[str, Any]]]


def command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "warplens", *map(str, args)]


def run(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return run_python(command(*args)[1:], ROOT, {**os.environ, "COLUMNS": "100", **environment})


def output(*args: str | Path) -> str:
    finished = run(*args)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


@pytest.fixture
def printed(run_inside: RunInside) -> Printed:
    def print_inside(*args: str | Path) -> str:
        finished = run_inside(*args)
        assert (finished.returncode, finished.stderr) == (0, "")
        return finished.stdout

    return print_inside


@pytest.fixture
def rows(printed: Printed) -> Rows:
    """What `--json` prints: one array of objects and nothing else."""

    def parsed(*args: str | Path) -> list[dict[str, Any]]:
        found = json.loads(printed(*args, "--json"))
        assert isinstance(found, list)
        return found

    return parsed


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three kernels of 60, 30 and 10 µs, the last two under a module."""
    events = [
        op("aten::mm", 0, 10),
        launch(1, 1, 1),
        kernel(GEMM, 20, 60, 1),
        frame("train.py(3): main", 20, 60),
        frame("nn.Module: Net_0", 22, 50),
        op("aten::addmm", 24, 10),
        launch(25, 1, 2),
        kernel(GEMM, 80, 30, 2),
        op("aten::relu", 40, 10),
        launch(41, 1, 3),
        kernel("relu_elementwise_kernel", 110, 10, 3, stream=9),
    ]
    return write_trace(tmp_path_factory.mktemp("small") / "small.json", events)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_the_summary_fits_one_screen(printed: Printed, sample: Path) -> None:
    lines = printed("report", sample).splitlines()
    assert len(lines) <= 45
    assert max(len(line) for line in lines if " warplens " not in line) <= 100, "commands stay whole"
    assert sample.name in lines[0]
    (verdict,) = [line for line in lines if line.startswith("verdict")]
    assert ("CPU only" in verdict) or any(line.startswith("where one ") for line in lines)


def test_the_summary_fits_a_narrow_terminal_too(run_inside: RunInside, small: Path) -> None:
    lines = run_inside("report", small, COLUMNS="80").stdout.splitlines()
    assert max(len(line) for line in lines if " warplens " not in line) <= 80, "commands stay whole"


def test_report_writes_what_the_paths_ask_for_and_says_so(printed: Printed, small: Path, tmp_path: Path) -> None:
    targets = [f"{tmp_path}/tables/", f"{tmp_path}/r.xlsx", f"{tmp_path}/r.json", f"{tmp_path}/r.md"]
    text = printed("report", small, *(part for target in targets for part in ("-o", target)))
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {f"{name}.csv" for name in TABLE_NAMES}
    assert (tmp_path / "r.xlsx").read_bytes().startswith(b"PK")
    assert set(json.loads((tmp_path / "r.json").read_text())["tables"]) == set(TABLE_NAMES)
    assert (tmp_path / "r.md").read_text().startswith("#")
    said = " ".join(text[text.index("wrote") :].split())
    assert str(tmp_path / "tables") in said


def test_a_quiet_report_prints_nothing_on_stdout(run_inside: RunInside, small: Path, tmp_path: Path) -> None:
    finished = run_inside("report", small, "-q", "-o", f"{tmp_path}/p/", "--tables", "parquet")
    assert (finished.returncode, finished.stdout) == (0, "")
    assert finished.stderr.strip() == f"wrote {tmp_path}/p/ ({len(TABLE_NAMES)} files)"
    assert pl.read_parquet(tmp_path / "p" / "kernels.parquet")["total_us"].to_list() == [60.0, 30.0, 10.0]


def test_nothing_is_overwritten_without_force(run_inside: RunInside, small: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.md"
    target.write_text("mine")
    refused = run_inside("report", small, "-o", target)
    assert refused.returncode == 2
    assert "already exists" in refused.stderr
    assert "--force" in refused.stderr
    assert (refused.stdout, target.read_text()) == ("", "mine")
    assert run_inside("report", small, "-o", target, "--force").returncode == 0
    assert target.read_text() != "mine"


def test_report_as_json_is_the_findings(rows: Rows, small: Path) -> None:
    assert rows("report", small) == rows("show", small, "findings")


@pytest.mark.parametrize("table", ["kernels", "op_shapes", "gaps", "timeline", "comm"])
def test_json_equals_the_csv_rows(rows: Rows, printed: Printed, tmp_path: Path, table: str) -> None:
    sample = next(path for path in SAMPLES if path.name == "resnet50_train.json.gz")
    text = printed("show", sample, table, "--csv")
    expected = rows("show", sample, table)
    parsed = list(csv.DictReader(io.StringIO(text)))
    assert len(parsed) == len(expected)
    for got, want in zip(parsed, expected, strict=True):
        assert list(got) == list(want)
        for column, value in want.items():
            if isinstance(value, float):
                assert float(got[column]) == value
            else:
                assert got[column] == (
                    "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
                )


def test_show_prints_what_a_report_writes(printed: Printed, run_inside: RunInside, small: Path, tmp_path: Path) -> None:
    run_inside("report", small, "-q", "-o", f"{tmp_path}/t/")
    for table in ("kernels", "ops", "quality"):
        assert printed("show", small, table, "--csv") == (tmp_path / "t" / f"{table}.csv").read_text()


def test_show_keeps_sorts_cuts_and_chooses(rows: Rows, small: Path) -> None:
    assert [row["op"] for row in rows("show", small, "kernels")] == ["aten::mm", "aten::addmm", "aten::relu"]
    assert [row["op"] for row in rows("show", small, "kernels", "--where", "total_us < 50 and stream = 7")] == [
        "aten::addmm"
    ]
    assert [row["total_us"] for row in rows("show", small, "kernels", "--sort=-total_us")] == [10.0, 30.0, 60.0]
    assert [row["op"] for row in rows("show", small, "kernels", "--sort", "stream", "--top", "1")] == ["aten::relu"]
    assert rows("show", small, "kernels", "--top", "1", "--columns", "total_us,op") == [
        {"total_us": 60.0, "op": "aten::mm"}
    ]
    assert list(rows("show", small, "kernels", "--columns", "op, count,op")[0]) == ["op", "count"]


def test_show_prints_a_table_people_can_read(printed: Printed, small: Path) -> None:
    lines = printed("show", small, "kernel_categories").splitlines()
    assert lines[0] == "kernel_categories: one row per kernel category"
    assert lines[1].split() == ["kernel_category", "count", "total_us", "percent"]
    assert lines[2].split() == ["GEMM", "2", "90.0", "90.0%"]
    assert "… 1 more row" in printed("show", small, "kernel_categories", "--top", "1")


def test_thresholds_and_rules_are_options(rows: Rows, small: Path, tmp_path: Path) -> None:
    assert [row["count"] for row in rows("show", small, "short_kernels", "--short", "30.001us")] == [1, 1]
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ncategory = "Mine"\ncontains = "relu"\n')
    found = rows("show", small, "kernel_categories", "--rules", rules)
    assert [row["kernel_category"] for row in found] == ["GEMM", "Mine"]


def test_no_cache_leaves_no_cache(run_inside: RunInside, small: Path, tmp_path: Path) -> None:
    assert run_inside("show", small, "timeline", "--no-cache", WARPLENS_CACHE=str(tmp_path / "cache")).returncode == 0
    assert not (tmp_path / "cache").exists()
    run_inside("show", small, "timeline", WARPLENS_CACHE=str(tmp_path / "cache"))
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_sql_asks_tables_and_events(rows: Rows, printed: Printed, small: Path) -> None:
    question = "select kernel_category, sum(total_us) as us from kernels group by kernel_category order by us desc"
    assert rows("sql", small, question) == [
        {"kernel_category": "GEMM", "us": 90.0},
        {"kernel_category": "Elementwise", "us": 10.0},
    ]
    question = "select name, dur_ns from events where kind = 'op' order by start_ns limit 1"
    assert rows("sql", small, question) == [{"name": "aten::mm", "dur_ns": 10_000}]
    assert printed("sql", small, "select count(*) as n from events where kind = 'kernel'", "--csv") == "n\n3\n"


def test_bad_sql_is_a_usage_error_that_names_the_tables(small: Path) -> None:
    finished = run("sql", small, "select nonsense from kernels")
    assert finished.returncode == 2
    assert "launch_categories" in finished.stderr


def test_tree_shows_time_by_call_path(printed: Printed, small: Path) -> None:
    lines = printed("tree", small).splitlines()
    assert lines[0].split() == ["gpu_us", "percent", "count", "GPU", "time", "by", "call", "path"]
    assert lines[1].split() == ["100.0", "100.0%", "3", "all"]
    assert [line.split()[-1] for line in lines if "aten::" in line] == ["aten::mm", "aten::addmm", "aten::relu"]
    assert [line.split()[0] for line in lines if line.endswith("Net_0")] == ["40.0"]


def test_tree_options_choose_context_metrics_depth_threshold_and_order(
    rows: Rows, printed: Printed, small: Path
) -> None:
    assert "train.py" not in printed("tree", small, "--context", "module")
    assert printed("tree", small, "-m", "self_us,avg_us").splitlines()[1].split() == ["0.0", "33.3", "all"]
    shallow = printed("tree", small, "--context", "op", "--depth", "1").splitlines()
    assert [line.split()[-1] for line in shallow[1:5]] == ["all", "aten::mm", "aten::addmm", "aten::relu"]
    assert "… 3 nodes not shown" in shallow[5]
    names = [row["name"] for row in rows("tree", small, "-c", "op", "-d", "1", "--sort", "name")]
    assert names == ["all", "aten::addmm", "aten::mm", "aten::relu"]
    assert "aten::relu" not in printed("tree", small, "--threshold", "10.1")
    assert GEMM in [row["name"] for row in rows("tree", small, "--full-names")]


def test_tree_includes_and_excludes_by_pattern(rows: Rows, small: Path) -> None:
    only = rows("tree", small, "--context", "module", "--include", "Net_0")
    assert (only[0]["gpu_us"], only[0]["count"]) == (40.0, 2)
    assert [row["name"] for row in only if row["depth"] == 1] == ["Net_0"]
    flat = rows("tree", small, "--context", "module", "--exclude", "Net_0|aten")
    assert (flat[0]["gpu_us"], {row["depth"] for row in flat}) == (100.0, {0, 1})


def test_tree_rows_know_their_parents(rows: Rows, small: Path) -> None:
    found = rows("tree", small, "-c", "op", "-t", "0")
    assert [row["node"] for row in found] == list(range(len(found)))
    assert found[0]["parent"] is None
    for row in found[1:]:
        parent = found[row["parent"]]
        assert parent["depth"] == row["depth"] - 1
        assert parent["gpu_us"] >= row["gpu_us"]


def test_tree_writes_flame_graphs_and_says_so_on_stderr(run_inside: RunInside, small: Path, tmp_path: Path) -> None:
    written = run_inside("tree", small, "-o", tmp_path / "x.speedscope.json")
    assert (written.stdout, written.stderr) == ("", f"wrote {tmp_path / 'x.speedscope.json'}\n")
    assert json.loads((tmp_path / "x.speedscope.json").read_text())["profiles"][0]["endValue"] == 100_000
    assert run_inside("tree", small, "-o", tmp_path / "x.folded", "-c", "op").stdout == ""
    assert len((tmp_path / "x.folded").read_text().splitlines()) == 3


@pytest.mark.parametrize("words", [("--top", "0"), ("--top", "-3"), ("--json", "--csv")])
def test_options_that_make_no_sense_are_usage_errors(
    run_inside: RunInside, small: Path, words: tuple[str, ...]
) -> None:
    assert run_inside("show", small, "kernels", *words).returncode == 2


def test_explain_has_rows_for_scripts(rows: Rows) -> None:
    (explained,) = rows("explain", "WL101")
    assert explained["name"] == "WL101"
    assert explained["meaning"].startswith(
        "The GPU waits for launches. The host cannot launch work as fast as the GPU runs it."
    )


def topics() -> list[str]:
    tables = [warplens.Profile(empty_trace()).table(name) for name in TABLE_NAMES]
    columns = {column.name for table in tables for column in table.columns}
    dotted = [f"{table.name}.{column.name}" for table in tables for column in table.columns]
    kernel_lab = [
        *KERNEL_RULES.codes,
        *FAULT_KINDS,
        *(table.name for table in kernel_tables()),
        "kernel_accesses.width_bits",
    ]
    codes = (*RULES.codes, *JOB_RULES.codes)
    return [*TABLE_NAMES, *sorted(columns), *dotted, *codes, *MESSAGES, *category_names(), *kernel_lab]


def test_explain_knows_every_table_column_code_note_and_category(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = cli_topics.all_tables()
    monkeypatch.setattr(cli_topics, "all_tables", lambda: tables)
    for topic in topics():
        text = printed("explain", topic)
        assert topic.rpartition(".")[2].lower() in text.lower()
        assert len(text) > len(topic) + 10, topic


def test_no_explanation_refers_to_itself(printed: Printed) -> None:
    for topic in ("idle", "gaps", "diff_idle", "quality"):
        assert f"warplens explain {topic}" not in printed("explain", topic)


def test_a_condition_on_an_unknown_column_lists_the_columns_once(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(small), "kernels", "--where", "totl_us > 1"]) == 2
    shown = capsys.readouterr().err
    assert 'unable to find column "totl_us". Did you mean "total_us"?' in shown
    assert shown.count("kernel_category") == 1


def test_the_headline_counts_records_since_not_each_is_an_event(small: Path, printed: Printed) -> None:
    headline = printed("report", small).splitlines()[0]
    assert " records · " in headline
    assert "events" not in headline


def test_explain_without_a_topic_lists_them_all(printed: Printed) -> None:
    text = " ".join(printed("explain").split())
    for topic in (
        *TABLE_NAMES,
        *RULES.codes,
        *JOB_RULES.codes,
        *MESSAGES,
        *category_names(),
        *KERNEL_RULES.codes,
        *FAULT_KINDS,
        "kernel_accesses",
    ):
        assert topic in text, topic


def test_explain_of_nothing_known_is_a_usage_error() -> None:
    finished = run("explain", "everything")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "no topic" in finished.stderr


VERBS = {"report": [], "show": ["kernels"], "tree": [], "sql": ["select * from kernels"]}


@pytest.mark.parametrize("verb", VERBS)
def test_piped_output_has_no_escape_codes(small: Path, verb: str) -> None:
    assert ESCAPE not in output(verb, small, *VERBS[verb])


def test_a_terminal_without_unicode_is_no_reason_to_fail(small: Path) -> None:
    finished = run("report", small, PYTHONIOENCODING="ascii")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "GEMM" in finished.stdout


def on_a_terminal(*args: str | Path, **environment: str) -> str:
    """What a process prints when its stdout is a terminal."""
    ours, theirs = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        command(*args),
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**env, "TERM": "xterm", "COLUMNS": "100", **environment},
    ) as process:
        os.close(theirs)
        parts = []
        # A pseudo-terminal ends with an error instead of an empty read once its other side is closed.
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:
            pass
        os.close(ours)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0
    return b"".join(parts).decode()


def test_a_terminal_gets_style_and_no_color_takes_every_escape_code_away(small: Path) -> None:
    assert ESCAPE in on_a_terminal("show", small, "kernels")
    plain = on_a_terminal("show", small, "kernels", NO_COLOR="1")
    assert "aten::addmm" in plain
    assert ESCAPE not in plain


def child_cpu_s(*args: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run(*args).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_quick() -> None:
    """The promise is 0.2 s; a slow machine gets half as much again."""
    assert min(child_cpu_s("--help") for _ in range(3)) <= 0.3


@pytest.mark.parametrize("args", [("--help",), ("report", "--help"), ("--version",)], ids=" ".join)
def test_help_imports_nothing_heavy(args: tuple[str, ...]) -> None:
    finished = subprocess.run(
        [sys.executable, "-X", "importtime", *command(*args)[1:]], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in finished.stderr.splitlines()}
    assert "argparse" in imported
    assert imported.isdisjoint({"polars", "numpy", "rich", "msgspec", "pandas", "isal", "xlsxwriter"})


def test_help_lists_the_verbs_and_version_the_version() -> None:
    text = output("--help")
    for verb in (*VERBS, "explain"):
        assert f"\n    {verb}" in text
    reader = "Python reader" if native_library.library() is None else "native reader"
    assert output("--version").strip() == f"warplens {warplens.__version__} ({reader})"


FAILURES: dict[str, tuple[int, list[str], str]] = {
    # what is wrong: (exit code, arguments with {trace}, {bad} and {folded} for files, what the message says)
    "no such file": (1, ["report", "/nonexistent/trace.json"], "no such file"),
    "no trace": (1, ["show", "{bad}", "kernels"], "text, but not JSON"),
    "no such table": (2, ["show", "{trace}", "kernelz"], "no table 'kernelz': did you mean kernels?"),
    "no such column": (2, ["show", "{trace}", "kernels", "--columns", "op,colour"], "no column 'colour'"),
    "no such column to sort by": (2, ["show", "{trace}", "kernels", "--sort", "colour"], "no column 'colour'"),
    "a condition that is no SQL": (2, ["show", "{trace}", "kernels", "--where", "count >"], "--where"),
    "a condition on no column": (2, ["show", "{trace}", "kernels", "--where", "colour = 1"], "colour"),
    "no unit": (2, ["report", "{trace}", "--gap", "10"], "not a duration"),
    "no such output": (2, ["report", "{trace}", "-o", "report.docx"], "report.docx"),
    "no such context": (2, ["tree", "{trace}", "--context", "line"], "no context 'line'"),
    "no regular expression": (2, ["tree", "{trace}", "--include", "("], "regular expression"),
    "a flame graph that is there": (2, ["tree", "{trace}", "-o", "{folded}"], "already exists"),
    "no such metric": (2, ["tree", "{trace}", "-m", "joules"], "no metric 'joules'"),
    "no such rules": (2, ["report", "{trace}", "--rules", "/nonexistent/rules.toml"], "rules"),
    "no such verb": (2, ["reprot", "{trace}"], "reprot"),
    "no such option": (2, ["report", "{trace}", "--colour"], "--colour"),
}
IN_A_PROCESS = ("no such file", "no such table", "no such verb")
"""One of each code, and one that argparse finds: what differs between the others is not the process."""


@pytest.mark.parametrize("what", FAILURES)
def test_expected_failures_say_one_line_on_stderr_and_set_the_exit_code(
    run_inside: RunInside, small: Path, tmp_path: Path, what: str
) -> None:
    code, arguments, message = FAILURES[what]
    bad = tmp_path / "bad.json"
    bad.write_text("hello, world")
    folded = tmp_path / "x.folded"
    folded.touch()
    run_it = run if what in IN_A_PROCESS else run_inside
    finished = run_it(*(argument.format(trace=small, bad=bad, folded=folded) for argument in arguments))
    assert (finished.returncode, finished.stdout) == (code, "")
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr
    (line,) = [line for line in finished.stderr.splitlines() if "error: " in line]
    assert line.startswith(("error: ", "warplens"))


def test_no_verb_shows_the_help_and_fails() -> None:
    finished = run()
    assert finished.returncode == 2
    assert "usage: warplens" in finished.stdout + finished.stderr


@pytest.mark.parametrize("form", [[], ["--csv"], ["--json"]], ids=["text", "csv", "json"])
def test_a_reader_that_leaves_early_is_no_error(form: list[str]) -> None:
    """18,000 events are far more than a pipe holds, so the writer meets the closed end."""
    arguments = command("sql", LARGE, "select * from events", *form)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(20)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=HANG_SECONDS) == 0


def test_the_line_in_a_list_of_verbs_is_the_first_of_the_verbs_own_help() -> None:
    waiting = [*PLACES.items(), *PLACES_OF_RUNNER.items()]
    while waiting:
        name, place = waiting.pop()
        verb = place.verb()
        assert (name, place.help) == (verb.name, help_text(verb).splitlines()[0].rstrip("."))
        waiting += verb.places.items() if isinstance(verb, VerbGroup) else []


@pytest.mark.parametrize(
    ("words", "threads"), [("tree t.json", "1"), ("profile x.py", None), ("kernel trace x.py", None)]
)
def test_programs_that_a_verb_runs_are_not_told_how_many_threads_to_use(words: str, threads: str | None) -> None:
    """Numpy is told before it is loaded, which a verb's own module does."""
    code = f"""
import os, sys
os.environ.pop("OPENBLAS_NUM_THREADS", None)
import warplens.cli as cli
loaded = {{}}
class Finder:
    def find_spec(self, name, *rest):
        loaded.setdefault(name, os.environ.get("OPENBLAS_NUM_THREADS"))
sys.meta_path.insert(0, Finder())
args = cli.parse({words.split()!r})
assert "OPENBLAS_NUM_THREADS" not in os.environ
assert loaded.get("numpy", "1") == "1", loaded
cli._tune_process(args.verb)
print(os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == str(threads)


def test_a_value_that_is_named_like_a_verb_loads_no_verb() -> None:
    """On a GPU host without the core's requirements `profile --data tree` has to find its own verb only."""
    script = "import sys; sys.modules['msgspec'] = None; from warplens.cli import build_parser; "
    words = ["profile", "--backend", "proton", "--data", "tree", "train.py"]
    finished = run_python(["-c", f"{script}print(build_parser({words}).parse_args({words}).data)"], ROOT)
    assert (finished.stdout, finished.stderr) == ("tree\n", "")
