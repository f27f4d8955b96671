"""`flamegraph` and `gantt` as a user runs them, and the commands of their guide."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from page_reader import PageData
from support import ROOT, SAMPLES, annotation, frame, kernel, launch, nightly_after, op, write_trace
from warplens.cli import main

Answer = tuple[int, str, str]
Run = Callable[..., Answer]
pytestmark = pytest.mark.usefixtures("one_cache")
SAMPLE = next(path for path in SAMPLES if path.name == "gpt2_train_step.json.gz")
NCCL4 = ROOT / "samples" / "ranks" / "nccl4"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of a command."""

    def inside(*args: str | Path) -> Answer:
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return inside


@pytest.fixture
def small(tmp_path: Path) -> Path:
    events = [
        frame("train.py(3): main", 0, 200),
        annotation("ProfilerStep#1", 2, 90),
        op("aten::mm", 10, 20),
        launch(11, 5, 1),
        kernel(GEMM, 40, 60, 1),
        annotation("ProfilerStep#2", 95, 90),
        op("aten::relu", 100, 20),
        launch(101, 5, 2),
        kernel("relu_elementwise_kernel", 140, 20, 2, stream=9),
    ]
    return write_trace(tmp_path / "small.json", events)


def folded(path: Path) -> dict[str, int]:
    lines = (line.rpartition(" ") for line in path.read_text().splitlines())
    return {stack: int(weight) for stack, _, weight in lines}


def test_flamegraph_writes_every_path_it_is_given(run: Run, small: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / name for name in ("x.svg", "x.folded", "x.speedscope.json")]
    code, printed, said = run("flamegraph", small, *(part for path in outputs for part in ("-o", path)))
    assert (code, printed) == (0, "")
    assert said == f"wrote {', '.join(map(str, outputs))}\n"
    assert outputs[0].read_text().startswith("<svg ")
    assert sum(folded(outputs[1]).values()) == 80_000
    assert json.loads(outputs[2].read_text())["profiles"][0]["endValue"] == 80_000


def test_flamegraph_options_choose_weight_context_and_direction(run: Run, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.folded"

    def stacks(*options: str) -> dict[str, int]:
        assert run("flamegraph", small, "-o", path, "--force", *options)[0] == 0
        return folded(path)

    assert stacks("-c", "op", "--full-names") == {
        f"aten::mm;{GEMM}": 60_000,
        "aten::relu;relu_elementwise_kernel": 20_000,
    }
    assert stacks("-c", "op", "--full-names", "--inverted") == {
        f"{GEMM};aten::mm": 60_000,
        "relu_elementwise_kernel;aten::relu": 20_000,
    }
    assert stacks("-c", "op", "--weight", "cpu") == {
        "aten::mm": 15_000,
        "aten::mm;cudaLaunchKernel": 5_000,
        "aten::relu": 15_000,
        "aten::relu;cudaLaunchKernel": 5_000,
    }
    assert sum(stacks("--weight", "cpu").values()) == 200_000
    assert sum(stacks("-i", "relu").values()) == 20_000
    assert stacks("-e", "^[^s]", "--full-names") == {GEMM: 60_000, "all": 20_000}


def test_flamegraph_options_shape_the_picture(run: Run, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    assert run("flamegraph", small, "-o", path, "--title", "my <run>", "--width", "640", "--min-px", "300")[0] == 0
    text = path.read_text()
    assert 'width="640"' in text
    assert "my &lt;run&gt;" in text
    assert re.search(r"not drawn: \d+ frames narrower than 300 px, 20.00 µs \(25.0 %\) in all", text)


def test_tree_draws_the_same_picture(run: Run, small: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    assert run("tree", small, "-o", first)[0] == run("flamegraph", small, "-o", second)[0] == 0
    assert first.read_bytes() == second.read_bytes()


def test_gantt_draws_what_the_options_choose(run: Run, small: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.svg"

    def picture(*options: str) -> str:
        code, printed, said = run("gantt", small, "-o", path, "--force", *options)
        assert (code, printed, said) == (0, "", f"wrote {path}\n")
        return re.sub(" +", " ", path.read_text())

    whole = picture()
    assert "small.json" in whole
    assert "GEMM 75.0 %" in whole
    assert "Elementwise 25.0 %" in whole
    assert "stream 9" in whole
    assert "Elementwise 100.0 %" in picture("--step", "2")
    assert "GEMM 75.0 %" in picture("--step", "1-2")
    assert "GEMM 75.0 %" in picture("--step", "1", "--step", "2")
    halved = picture("--range", "70us-150us", "--title", "A & B")
    assert "GEMM 75.0 %" in halved
    assert "2 GPU events, 40.00 µs of GPU time" in halved
    assert "A &amp; B" in halved
    assert "1 other kernel 25.0 %" in picture("--by", "kernel", "--top", "1")


def test_gantt_sizes_a_png(run: Run, small: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    path = tmp_path / "x.png"
    assert run("gantt", small, "-o", path, "--width", "5", "--height", "3", "--dpi", "40")[0] == 0
    assert image.imread(path).shape[:2] == (120, 200)


FAILURES: dict[str, tuple[int, list[str], str]] = {
    # what is wrong: (exit code, arguments with {trace}, {cpu} and {there} for files, what the message says)
    "no place for a flame graph": (2, ["flamegraph", "{trace}"], "no output is given"),
    "a flame graph of no format": (2, ["flamegraph", "{trace}", "-o", "x.jpeg"], "unknown output format"),
    "a flame graph that is there": (2, ["flamegraph", "{trace}", "-o", "{there}"], "already exists"),
    "no such weight": (2, ["flamegraph", "{trace}", "-o", "x.svg", "--weight", "joules"], "no weight 'joules'"),
    "no such context": (2, ["flamegraph", "{trace}", "-o", "x.svg", "-c", "line"], "no context 'line'"),
    "no GPU work to draw": (1, ["flamegraph", "{cpu}", "-o", "x.svg"], "no GPU work in this trace"),
    "no path that matches": (1, ["flamegraph", "{trace}", "-o", "x.svg", "-i", "zzz"], "no GPU work on any path"),
    "no place for a chart": (2, ["gantt", "{trace}"], "no output is given"),
    "a chart of no format": (2, ["gantt", "{trace}", "-o", "x.jpeg"], "unknown output format"),
    "a chart that is there": (2, ["gantt", "{trace}", "-o", "{there}"], "already exists"),
    "no GPU work in the trace": (1, ["gantt", "{cpu}", "-o", "x.png"], "no GPU work in this trace"),
    "no GPU work in the range": (1, ["gantt", "{trace}", "-o", "x.png", "--range", "1s-2s"], "no GPU work from 1"),
    "no such step": (2, ["gantt", "{trace}", "-o", "x.png", "--step", "7"], "no step 7 with GPU work"),
    "a step that is no number": (2, ["gantt", "{trace}", "-o", "x.png", "--step", "two"], "'two' is not a valid step"),
    "steps the wrong way round": (2, ["gantt", "{trace}", "-o", "x.png", "--step", "5-3"], "'5-3' is not a valid step"),
    "a range without an end": (2, ["gantt", "{trace}", "-o", "x.png", "--range", "5ms"], "not a valid time range"),
    "a range without units": (2, ["gantt", "{trace}", "-o", "x.png", "--range", "5-6"], "not a duration"),
    "an empty range": (2, ["gantt", "{trace}", "-o", "x.png", "--range", "6ms-5ms"], "is empty"),
    "colours by nothing known": (2, ["gantt", "{trace}", "-o", "x.png", "--by", "shape"], "--by 'shape' is not valid"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_expected_failures_are_one_line_and_write_nothing(
    run: Run, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    code, arguments, message = FAILURES[what]
    if arguments[0] == "gantt":
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    cpu = write_trace(tmp_path / "cpu.json", [op("aten::mm", 0, 10)])
    there = tmp_path / "there.svg"
    there.write_text("mine")
    before = sorted(tmp_path.iterdir())
    answer = run(*(word.format(trace=small, cpu=cpu, there=there) for word in arguments))
    assert answer[:2] == (code, "")
    assert answer[2].startswith("error: ")
    assert message in answer[2].splitlines()[0]
    assert (sorted(tmp_path.iterdir()), there.read_text()) == (before, "mine")


@pytest.mark.parametrize(
    "words",
    [
        ("flamegraph", "t", "--width", "3"),
        ("flamegraph", "t", "--min-px", "-1"),
        ("gantt", "t", "--top", "17"),
        ("gantt", "t", "--dpi", "9"),
        ("gantt", "t", "--width", "nan"),
        ("gantt", "t", "--range", "1ms-2ms", "--step", "3"),
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_are_usage_errors(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2


def guide_commands() -> list[str]:
    text = (ROOT / "docs" / "guides" / "pictures.md").read_text()
    return [re.split(r"  +", line)[0] for line in re.findall(r"^warplens .*$", text, re.MULTILINE)]


@pytest.mark.parametrize("line", nightly_after(6, sorted(guide_commands(), key=lambda line: "job/" in line)))
def test_the_commands_of_the_guide_work(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    words = shlex.split(line)[1:]
    if words[0] == "gantt":
        pytest.importorskip("matplotlib")
    (tmp_path / "trace.json.gz").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "job").symlink_to(NCCL4)
    monkeypatch.chdir(tmp_path)
    code, _, said = run(*words)
    assert code == 0, said
    written = [words[at + 1] for at, word in enumerate(words) if word == "-o"]
    assert written
    assert all((tmp_path / path).stat().st_size > 100 for path in written)


def test_a_gantt_page_opens_at_the_chosen_step(run: Run, small: Path, tmp_path: Path) -> None:
    page = tmp_path / "g.html"
    code, _, error = run("gantt", small, "--step", "2", "--by", "kernel", "-o", page)
    assert (code, error) == (0, f"wrote {page}\n")
    header = PageData(page.read_text()).header
    assert header["mode"] == "gantt"
    assert header["start"] == "view=140000-160000&colour=kernel"


HINTS: dict[str, tuple[list[str], str]] = {
    # what cannot be drawn: (arguments, what the hint leads to)
    "regions inside kernels over time": (["gantt", "{regions}", "-o", "x.png"], "show TRACE regions"),
    "regions inside kernels by path": (["flamegraph", "{regions}", "-o", "x.svg"], "show TRACE regions"),
    "calls without times": (["flamegraph", "{calls}", "-o", "x.svg"], "warplens tree TRACE"),
    "calls without times, by the tree": (["tree", "{calls}", "-o", "x.svg"], "write x.csv or x.json"),
    "the host alone over time": (["gantt", "{cpu}", "-o", "x.html"], "flamegraph TRACE --weight cpu"),
    "the host alone by path": (["flamegraph", "{cpu}", "-o", "x.svg"], "--weight cpu"),
}


@pytest.mark.parametrize("what", HINTS)
def test_what_cannot_be_drawn_leads_to_what_can_be_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    arguments, hint = HINTS[what]
    monkeypatch.chdir(tmp_path)
    cpu = write_trace(tmp_path / "cpu.json", [op("aten::mm", 0, 10)])
    regions = ROOT / "samples" / "proton" / "intra.chrome_trace.gz"
    calls = ROOT / "samples" / "ncu" / "kernels_lines.csv.gz"
    code, printed, said = run(*(word.format(cpu=cpu, regions=regions, calls=calls) for word in arguments))
    assert (code, printed) == (1, "")
    assert hint in said.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [cpu]


def test_a_tree_of_regions_inside_kernels_leads_to_their_table(run: Run) -> None:
    code, printed, said = run("tree", ROOT / "samples" / "proton" / "intra.chrome_trace.gz")
    assert (code, printed) == (0, "")
    assert said.startswith("no GPU work in this trace\n")
    assert "show TRACE regions" in said


def labels_of(path: Path) -> list[str]:
    return re.findall(r">((?:rank \d+ )?stream \d+)<", path.read_text())


@pytest.mark.nightly
def test_a_gantt_picture_of_a_job_has_a_row_for_each_rank_and_stream(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    path = tmp_path / "job.svg"
    code, printed, said = run("gantt", NCCL4, "-o", path)
    assert (code, printed) == (0, "")
    assert "of 4" not in said
    assert labels_of(path) == [f"rank {rank} stream {stream}" for rank in range(4) for stream in (7, 16)]
    assert "time since the job's start (ms)" in path.read_text()
    assert "; 4 ranks" in path.read_text()
    assert run("gantt", NCCL4, "-o", path, "--force", "--ranks", "1,3", "--step", "7")[0] == 0
    assert labels_of(path) == ["rank 1 stream 7", "rank 1 stream 16", "rank 3 stream 7", "rank 3 stream 16"]
    assert "; 2 ranks (1, 3) of 4" in path.read_text()
    assert run("gantt", NCCL4, "-o", path, "--force", "--rank", "1")[0] == 0
    assert labels_of(path) == ["stream 7", "stream 16"]
    monkeypatch.setattr("warplens.cli.traces.gantt.MOST_RANKS", 3)
    assert "note: 2 ranks (0, 1) of 4: --ranks chooses others" in run("gantt", NCCL4, "-o", path, "--force")[2]
    monkeypatch.setattr("warplens.cli.traces.gantt.MOST_ROWS", 3)
    code, _, said = run("gantt", NCCL4, "-o", path, "--force")
    assert code == 2
    assert "a picture of 4 rows cannot be read: at most 3 fit" in said


def test_a_gantt_page_of_a_job_has_the_lanes_of_all_ranks(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "job.html"
    assert run("gantt", NCCL4, "-o", page, "--step", "7")[0] == 0
    header = PageData(page.read_text()).header
    (scene,) = header["scenes"]
    assert header["mode"] == "gantt"
    assert sorted((lane["process"], lane["thread"]) for lane in scene["lanes"] if lane["gpu"]) == sorted(
        (f"rank {rank}", stream) for rank in range(4) for stream in ("stream 7", "stream 16")
    )
    first, last = map(int, re.findall(r"\d+", header["start"])[:2])
    assert 100_000_000 < last - first < 300_000_000, "a step of this job takes 190 ms"
    assert first > 700_000_000, "since the job's first event"


def test_ranks_that_a_job_does_not_have_are_refused_before_anything_is_drawn(run: Run, tmp_path: Path) -> None:
    code, _, said = run("gantt", NCCL4, "-o", tmp_path / "x.html", "--ranks", "3,9")
    assert code == 2
    assert f"no rank 9 in {NCCL4}" in said
    code, _, said = run("gantt", SAMPLE, "-o", tmp_path / "x.html", "--ranks", "0")
    assert code == 2
    assert "--ranks chooses among the ranks of a job" in said
    assert list(tmp_path.iterdir()) == []
