"""A second report of a trace is made from kept tables: the same bytes, and nothing is computed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shlex import split

import pytest

from support import ROOT, SAMPLES, RunInside, annotation, kernel, launch, op, write_trace
from warplens.cache import place
from warplens.cli import main
from warplens.profiles import reading

GPT2 = next(path for path in SAMPLES if path.name == "gpt2_train_compiled.json.gz")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The traces that were read, in order, from the cache or not."""
    paths: list[str] = []
    real = reading.read_with_light

    def counting(path: Path, **options: object) -> object:
        paths.append(path.name)
        return real(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("warplens.api.read_with_light", counting)
    return paths


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    events = [
        annotation("ProfilerStep#1", 0, 100),
        op("aten::mm", 0, 10, **{"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}),
        launch(1, 1, 1),
        kernel("gemm", 5, 10, 1),
        kernel("softmax", 40, 20),
    ]
    return write_trace(tmp_path / "trace.json", events)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_the_second_report_equals_the_first(
    sample: Path, tmp_path: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    outputs: list[str] = []
    for folder in ("a", "b"):
        assert main(["report", str(sample), "-o", f"{tmp_path / folder}/"]) == 0
        outputs.append(capsys.readouterr().out.replace(f"/{folder}/", ""))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert outputs[0] == outputs[1]
    assert len(opened) == 1


@pytest.mark.parametrize("suffix", ["html", "json", "md"])
def test_every_output_is_made_from_kept_tables_as_from_the_trace(tmp_path: Path, suffix: str) -> None:
    kept, fresh = tmp_path / f"kept.{suffix}", tmp_path / f"fresh.{suffix}"
    main(["report", str(GPT2), "-q"])
    main(["report", str(GPT2), "-q", "-o", str(kept)])
    main(["report", str(GPT2), "-q", "-o", str(fresh), "--no-cache"])
    assert kept.read_bytes() == fresh.read_bytes()


def test_nothing_that_computes_is_even_loaded(trace_file: Path, tmp_path: Path) -> None:
    main(["report", str(trace_file), "-q"])
    code = (
        "import sys; from warplens.cli import main; main(sys.argv[1:]);"
        "sys.exit(' '.join({'numpy', 'warplens.analyses', 'warplens.readers'} & set(sys.modules)))"
    )
    words = ["report", str(trace_file), "-o", f"{tmp_path / 'out'}/"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_show_and_sql_answer_from_kept_tables(
    trace_file: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["report", str(trace_file), "-q"])
    capsys.readouterr()
    main(["show", str(trace_file), "kernels", "--csv"])
    assert "softmax" in capsys.readouterr().out
    main(["sql", str(trace_file), "select count(*) as n from kernels", "--csv"])
    assert capsys.readouterr().out == "n\n2\n"
    main(["report", str(trace_file), "--json"])
    assert len(opened) == 1


def test_what_is_not_kept_is_read_from_the_trace(
    trace_file: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["report", str(trace_file), "-q"])
    capsys.readouterr()
    main(["sql", str(trace_file), "select count(*) as n from events", "--csv"])
    assert capsys.readouterr().out == "n\n5\n"
    assert main(["show", str(trace_file), "gpu_events", "--csv"]) == 0
    assert "softmax" in capsys.readouterr().out
    assert len(opened) == 3


@pytest.mark.parametrize(
    "words", [["--gap", "1us"], ["--gpu", "H100"], ["--step-time", "1ms"], ["--min-gain", "5"], ["--no-cache"]]
)
def test_other_options_are_another_report(trace_file: Path, opened: list[str], words: list[str]) -> None:
    main(["report", str(trace_file), "-q"])
    main(["report", str(trace_file), "-q", *words])
    assert len(opened) == 2


def test_changed_rules_are_another_report(trace_file: Path, tmp_path: Path, opened: list[str]) -> None:
    rules = tmp_path / "rules.toml"
    for category in ("Mine", "Yours"):
        rules.write_text(f'[[rule]]\ncategory = "{category}"\npattern = "softmax"\n')
        for _ in range(2):
            written = ["-q", "-o", str(tmp_path / "report.md"), "--force"]
            assert main(["report", str(trace_file), "--rules", str(rules), *written]) == 0
            assert category in (tmp_path / "report.md").read_text()
    assert len(opened) == 2


def test_a_changed_trace_is_another_report(trace_file: Path, opened: list[str]) -> None:
    main(["report", str(trace_file), "-q"])
    write_trace(trace_file, [kernel("other", 0, 1)])
    main(["report", str(trace_file), "-q"])
    assert len(opened) == 2


def test_a_report_of_another_version_is_not_used(
    trace_file: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["report", str(trace_file), "-q"])
    monkeypatch.setattr(place, "__version__", "0.0.1-other")
    main(["report", str(trace_file), "-q"])
    assert len(opened) == 2


def test_a_damaged_report_is_made_again(trace_file: Path, opened: list[str]) -> None:
    main(["report", str(trace_file), "-q"])
    for tables in place.cache_directory().glob("*/small.arrows"):
        tables.write_bytes(tables.read_bytes()[:-8])
    main(["report", str(trace_file), "-q"])
    main(["report", str(trace_file), "-q"])
    assert len(opened) == 2


def test_a_kept_report_names_the_file_where_it_is_now(tmp_path: Path, run_inside: RunInside) -> None:
    first, moved = tmp_path / "first.json.gz", tmp_path / "moved here.json.gz"
    first.write_bytes((ROOT / "samples/faults/launch_bound.before.json.gz").read_bytes())
    run_inside("report", first)
    first.rename(moved)
    screen = run_inside("report", moved, "-o", tmp_path / "x.json").stdout
    assert screen.startswith("moved here.json.gz · ")
    assert "first.json.gz" not in screen + (tmp_path / "x.json").read_text()
    assert f"warplens advise '{moved}'" in screen


def test_proposed_commands_have_the_options_that_were_given(tmp_path: Path, run_inside: RunInside) -> None:
    trace, page = ROOT / "samples/faults/launch_bound.before.json.gz", tmp_path / "x.json"
    options = ("--step-time", "9ms", "--gap", "30us", "--gpu", "H100 SXM")
    screen = run_inside("report", trace, *options, "-o", page).stdout
    commands = json.loads(page.read_text())["answer"]["next"]
    assert all(command in screen for command in commands)
    proposed = [command for command in commands if "explain" not in command]
    assert proposed
    for command in proposed:
        assert command.endswith(" --gpu 'H100 SXM' --gap 30us --step-time 9ms")
        assert run_inside(*split(command)[1:]).returncode == 0
