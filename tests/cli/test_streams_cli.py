"""stdin, stdout and stderr as a shell connects them, and the options that every verb shares."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import HANG_SECONDS, ROOT, SAMPLES, RunInside, nightly_after, run_python
from warplens.cli import build_parser, main
from warplens.cli.verbs import all_verbs
from warplens_run.cli.verb import Verb, VerbGroup

TRACE = next(path for path in SAMPLES if path.name == "cudagraph_infer.json.gz")
OTHER = next(path for path in SAMPLES if path.name == "resnet50_train.json.gz")
WARPLENS = f"{sys.executable} -m warplens"
FULL = "error: cannot write to stdout: No space left on device\n"
CLOSED = "error: cannot write to stdout: Bad file descriptor\n"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    line = f"set -o pipefail; {command}".replace("warplens", WARPLENS).replace("TRACE", str(TRACE))
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=HANG_SECONDS, cwd=ROOT)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command",
    nightly_after(3, ["show TRACE kernels", "explain", "--help", "show TRACE kernels --json", "report TRACE"]),
)
def test_a_full_disk_behind_stdout_is_one_line(command: str) -> None:
    finished = shell(f"warplens {command} >/dev/full")
    assert (finished.returncode, finished.stderr) == (1, FULL)


@pytest.mark.parametrize("command", ["show TRACE kernels", "sql TRACE 'select 1' --json", "--help"])
def test_a_closed_stdout_is_one_line(command: str) -> None:
    finished = shell(f"warplens {command} >&-")
    assert (finished.returncode, finished.stderr) == (1, CLOSED)


def test_a_closed_stdout_that_nothing_is_written_to_is_no_error(tmp_path: Path) -> None:
    finished = shell(f"warplens report TRACE -q -o {tmp_path}/r.md >&-")
    assert (finished.returncode, finished.stderr) == (0, f"wrote {tmp_path}/r.md (1 file)\n")
    assert (tmp_path / "r.md").read_text().startswith("#")


def test_with_a_closed_stderr_errors_do_not_go_to_stdout() -> None:
    finished = shell("warplens show TRACE no_such_table 2>&-")
    assert (finished.returncode, finished.stdout) == (2, "")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    finished = shell("warplens sql TRACE 'select * from events' --csv | head -1")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith("id,")


@pytest.mark.parametrize("reader", ["cat", "gunzip -c"])
def test_a_dash_reads_the_trace_from_stdin(reader: str, run_inside: RunInside) -> None:
    piped = shell(f"{reader} TRACE | warplens show - kernels --json")
    assert (piped.returncode, piped.stderr) == (0, "")
    assert piped.stdout == run_inside("show", TRACE, "kernels", "--json").stdout


def piped(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """`cat TRACE | warplens …`."""
    with subprocess.Popen(["cat", TRACE], stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        command = ["-m", "warplens", *map(str, words)]
        return run_python(command, ROOT, os.environ, source.stdout.fileno())


@pytest.mark.parametrize("words", nightly_after(3, [
    ("report", "-"), ("sql", "-", "select 1"), ("diff", TRACE, "-"), ("advise", "-"), ("tree", "-"), ("unique", "-"),
    ("diff", "-", TRACE), ("tree", TRACE, "--diff", "-"),
]), ids=lambda words: " ".join(getattr(word, "name", word) for word in words))  # fmt: skip
def test_every_verb_that_opens_a_trace_reads_stdin(words: tuple[str | Path, ...]) -> None:
    finished = piped(*words)
    assert (finished.returncode, "Traceback" in finished.stderr) == (0, False)
    assert finished.stdout


def test_a_trace_from_stdin_is_converted(tmp_path: Path, run_inside: RunInside) -> None:
    converted = tmp_path / "x.perfetto.json.gz"
    finished = piped("convert", "-", "-o", converted)
    assert (finished.returncode, finished.stdout) == (0, "")
    shown = [run_inside("show", path, "kernels", "--csv").stdout for path in (converted, TRACE)]
    assert shown[0] == shown[1] != ""


def test_stdin_is_read_only_once_and_only_from_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    finished = shell("cat TRACE | warplens diff - -")
    assert finished.returncode == 2
    assert "only once" in finished.stderr
    finished = shell("warplens report - <&-")
    assert finished.returncode == 2
    assert "nothing is piped" in finished.stderr


@pytest.mark.parametrize("words", [["--sort", "-count"], ["--sort=-count"]], ids=" ".join)
def test_a_minus_sorts_the_smallest_first(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(OTHER), "kernels", "--json", *words]) == 0
    counts = [row["count"] for row in json.loads(capsys.readouterr().out)]
    assert counts == sorted(counts)
    assert len(set(counts)) > 1


def test_a_tree_sorts_siblings_the_smallest_first_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tree", str(OTHER), "-c", "op", "--sort", "-gpu_us", "-d", "1", "--json"]) == 0
    times = [row["gpu_us"] for row in json.loads(capsys.readouterr().out)[1:]]
    assert times == sorted(times)
    assert len(times) > 1


def leaves(verbs: tuple[Verb, ...], path: str = "") -> dict[str, Verb]:
    found: dict[str, Verb] = {}
    for verb in verbs:
        name = f"{path} {verb.name}".strip()
        found |= leaves(verb.verbs, name) if isinstance(verb, VerbGroup) else {name: verb}
    return found


LEAVES = leaves(all_verbs())


def options(verb: Verb) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return {name: action for action in parser._actions for name in action.option_strings}


@pytest.mark.parametrize("name", LEAVES)
def test_a_verb_that_prints_rows_as_json_has_top(name: str) -> None:
    has = options(LEAVES[name])
    # One row, and one per GPU; and texts.
    if "--json" in has and name not in ("workload", "try", "energy", "explain"):
        assert "--top" in has


@pytest.mark.parametrize(
    "option", ["--sort", "--where", "--columns", "--csv", "--no-cache", "--force", "--rules", "--gap"]
)
def test_an_option_says_the_same_in_every_verb(option: str) -> None:
    own = {"tree": {"--sort"}, "kernel check": {"--no-cache"}}
    verbs = {name: options(verb) for name, verb in LEAVES.items()}
    texts = {(has[option].help or "").partition(" of ")[0] for name, has in verbs.items()
             if option in has and option not in own.get(name, ())}  # fmt: skip
    assert len(texts) == 1


@pytest.mark.parametrize("name", LEAVES)
def test_every_verb_has_a_line_of_help_and_knows_its_inputs(name: str) -> None:
    verb = LEAVES[name]
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    assert (type(verb).__doc__ or "").splitlines()[0].endswith(".")
    assert set(verb.inputs) <= {action.dest for action in parser._actions}


def test_the_parser_of_one_verb_knows_only_its_options() -> None:
    assert build_parser(["show"]).parse_args(["show", "t", "kernels", "--top", "3"]).top == 3
    with pytest.raises(SystemExit):
        build_parser(["show"]).parse_args(["tree", "t"])


def test_a_command_loads_no_other_verb() -> None:
    code = (
        "import sys, warplens.cli; warplens.cli.parse(['show', 't', 'kernels']);"
        "print(*sorted(name for name in sys.modules if name.startswith('warplens.cli.traces.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["warplens.cli.traces.show"]


@pytest.mark.parametrize("rows", [1, 3])
def test_top_of_a_tree_is_its_largest_nodes(rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tree", str(OTHER), "-c", "op", "--json", "-t", "0"]) == 0
    every = sorted((row["gpu_us"] for row in json.loads(capsys.readouterr().out)), reverse=True)
    assert main(["tree", str(OTHER), "-c", "op", "--json", "--top", str(rows)]) == 0
    assert sorted((row["gpu_us"] for row in json.loads(capsys.readouterr().out)), reverse=True) == every[:rows]


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": ""}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
    ids=str,
)
def test_colour_in_a_pipe_is_forced_unless_no_colour_is_asked_for(
    environment: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    finished = piped("show", TRACE, "kernel_categories")
    assert finished.returncode == 0
    assert ("\x1b[" in finished.stdout) is is_coloured
