"""The ranks of a job on the command line: folders, several paths, patterns, one rank of them, and what is wrong."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

import warplens
from graph_traces import capture
from make_ranks import Grid, JobSpec, make_job
from page_reader import PageData
from support import ROOT
from warplens.cli import build_parser, main
from warplens.cli.explaining.topics import all_tables
from warplens.cli.verbs import all_verbs
from warplens.ranks.tables import JOB_TABLES
from warplens_run.cli.verb import Verb, VerbGroup

NCCL4 = ROOT / "samples" / "ranks" / "nccl4"
pytestmark = pytest.mark.usefixtures("one_cache")
RANKS = [str(path) for path in sorted(NCCL4.iterdir())]


def rows_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


def failure_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) in (1, 2)
    out, errors = capsys.readouterr()
    assert not out
    line, _, _hint = errors.partition("\n")
    return line.removeprefix("error: ")


def notes_of(capsys: pytest.CaptureFixture[str], folder: Path) -> list[str]:
    return [str(row["message"]) for row in rows_of(capsys, "show", str(folder), "quality")]


@pytest.fixture(scope="module")
def small_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    make_job(folder, JobSpec(grid=Grid(dp=4), steps=3, events=150, layers=1))
    return folder


@pytest.fixture
def job(small_job: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(small_job, tmp_path / "job"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("report A -o x.html B C", {"trace": "A", "more": ["B", "C"], "output": ["x.html"]}),
        ("report -o x.html A B", {"trace": "A", "more": ["B"], "output": ["x.html"]}),
        ("report A B -q C", {"trace": "A", "more": ["B", "C"]}),
        ("show A --top 3 B ranks", {"trace": "A", "more": ["B"], "table": "ranks", "top": 3}),
        ("show A B --top 3 ranks", {"trace": "A", "more": ["B"], "table": "ranks"}),
        ("sql A --json B C query", {"trace": "A", "more": ["B", "C"], "query": "query"}),
    ],
)
def test_ranks_may_follow_options(words: str, expected: dict[str, object]) -> None:
    given = vars(build_parser().parse_args(words.split()))
    assert {name: given[name] for name in expected} == expected


@pytest.mark.parametrize("words", ["report A --nonsense B", "report A -q B --nonsense", "tree A --json B"])
def test_what_is_not_a_rank_is_still_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(words.split())
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("paths", [[str(NCCL4)], RANKS, [str(NCCL4 / "nccl4_rank*.json.gz")]])
def test_a_folder_several_paths_and_a_pattern_are_the_same_job(
    paths: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *paths]) == 0
    assert "Rank 1 is 21.1 ms slower per step since step 7" in capsys.readouterr().out
    assert [row["rank"] for row in rows_of(capsys, "show", *paths, "ranks")] == [0, 1, 2, 3]
    assert rows_of(capsys, "sql", *paths, "select max(rank) as most from ranks") == [{"most": 3}]
    assert main(["advise", *paths]) == 0
    assert capsys.readouterr().out.startswith("Rank 1 is 21.1 ms slower")


def test_a_report_of_a_job_has_every_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = [tmp_path / name for name in ("r.html", "r.xlsx", "r.json", "r.md")]
    words = [word for path in (*map(str, outputs), f"{tmp_path}/tables/") for word in ("-o", path)]
    assert main(["report", str(NCCL4), "-q", *words]) == 0
    assert all(path.stat().st_size for path in outputs)
    assert "rank,step_ms" in (tmp_path / "tables" / "ranks.csv").read_text()
    assert "tables has no profiles" in failure_of(capsys, "report", str(tmp_path / "tables"))


def test_explain_has_the_columns_that_a_job_shows() -> None:
    explained = {table.name: table.columns for table in all_tables()}
    job = warplens.open_ranks([NCCL4])
    for name in JOB_TABLES.keys() - {"quality"}:
        assert explained[name] == job.table(name).columns, name


@pytest.mark.parametrize("topic", ["ranks", "waits", "collectives", "exposed_by_module", "job_critical_path", "own_ms"])
def test_a_word_of_a_job_is_explained_by_the_table_that_has_it(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", topic]) == 0
    out = capsys.readouterr().out
    tables = {"ranks", "rank_steps"} if topic == "own_ms" else {topic}
    assert set(re.findall(r"^  (\w+)\.", out, re.MULTILINE)) == tables
    if topic == "ranks":
        assert "also a column of groups and pipeline: warplens explain groups.ranks" in out


@pytest.fixture(scope="module")
def job_of_20(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job_of_20")
    make_job(folder, JobSpec(grid=Grid(dp=20), steps=2, events=60, layers=1))
    return folder


def drawn_on(page: Path) -> dict[int, str]:
    return {each["rank"]: each["why"] for each in PageData(page.read_text("utf-8")).header["job"]["drawn"]}


def test_the_page_of_many_ranks_draws_those_that_are_chosen(
    job_of_20: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(job_of_20), "-q", "-o", f"{tmp_path}/plain.html"]) == 0
    plain = drawn_on(tmp_path / "plain.html")
    left_out = sorted(set(range(20)) - set(plain))
    words = ["--ranks", f"{left_out[0]}, {left_out[-2]}-{left_out[-1]}"]
    assert main(["report", str(job_of_20), "-q", "-o", f"{tmp_path}/chosen.html", *words]) == 0
    chosen = dict.fromkeys([left_out[0], *range(left_out[-2], left_out[-1] + 1)], "chosen")
    assert drawn_on(tmp_path / "chosen.html") == plain | chosen


def test_chosen_ranks_that_are_not_there_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(NCCL4), "--ranks", "2,4-9"]) == 2
    assert capsys.readouterr().err == f"error: no rank 4 in {NCCL4}\n\nhint: there is rank 0 to 3\n"
    one_trace = f"--ranks chooses among the ranks of a job, and {RANKS[2]} is one trace"
    assert failure_of(capsys, "report", RANKS[2], "--ranks", "2") == one_trace
    assert failure_of(capsys, "report", str(NCCL4), "--rank", "2", "--ranks", "2") == one_trace


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1--2", "4-2", "1,,2", "0-99999999999"])
def test_what_is_not_a_list_of_ranks_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", str(NCCL4), f"--ranks={text}"])
    assert "argument --ranks: " in capsys.readouterr().err


def leaf_verbs(verbs: tuple[Verb, ...], words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Verb]]:
    return [
        leaf
        for verb in verbs
        for leaf in (
            leaf_verbs(verb.verbs, (*words, verb.name))
            if isinstance(verb, VerbGroup)
            else [((*words, verb.name), verb)]
        )
    ]


OF_ONE = [words for words, verb in leaf_verbs(all_verbs()) if "trace" in verb.inputs and not verb.reads_jobs]
NEEDED = {"replay plan": ["-o", "never.json"], "prove plan": ["-o", "never.json"], "flamegraph": ["-o", "never.svg"]}


@pytest.mark.parametrize("words", OF_ONE, ids=" ".join)
def test_verbs_of_one_trace_name_the_option_that_chooses_it(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, str(NCCL4), *NEEDED.get(" ".join(words), [])]) == 2
    out, errors = capsys.readouterr()
    assert not out
    error, _, hint = errors.partition("\n\n")
    assert error == f"error: {NCCL4} contains 4 ranks, and {words[-1]} reads one"
    assert hint.startswith("hint: --rank 0 opens one of them")


def test_every_verb_that_opens_a_trace_can_choose_a_rank() -> None:
    for words, verb in leaf_verbs(all_verbs()):
        if "trace" in verb.inputs:
            rank = build_parser().parse_args([*words, "t", "--rank", "3", *_other_words(words)]).rank
            assert rank == ([3] if verb.name == "convert" else 3)  # which takes several


def _other_words(words: tuple[str, ...]) -> list[str]:
    return {"show": ["kernels"], "sql": ["select 1"]}.get(words[-1], NEEDED.get(" ".join(words), []))


def test_one_rank_opens_as_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    kernels = rows_of(capsys, "show", RANKS[2], "kernels")
    for paths in ([str(NCCL4)], RANKS, [RANKS[2]]):
        assert rows_of(capsys, "show", *paths, "kernels", "--rank", "2") == kernels
    assert main(["tree", str(NCCL4), "--rank", "2", "--json"]) == 0
    assert failure_of(capsys, "tree", str(NCCL4), "--rank", "9") == f"no rank 9 in {NCCL4}"
    assert failure_of(capsys, "report", RANKS[2], "--rank", "3") == f"no rank 3 in {RANKS[2]}"


def test_a_rank_is_known_by_its_trace_before_its_name(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(4):
        (job / f"rank{rank}.json.gz").rename(job / f"part{3 - rank}.json.gz")
    (job / "truth.json").unlink()
    assert main(["report", str(job), "--rank", "3"]) == 0
    assert "part0.json.gz" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_rank_without_metadata_and_name_is_the_one_that_the_job_numbers_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "job"
    for source, name in zip(RANKS, "abcd", strict=True):
        _without_metadata(Path(source), folder / f"{name}.json")
    by_rank = {row["rank"]: str(row["source"]) for row in rows_of(capsys, "show", str(folder), "ranks")}
    assert main(["report", str(folder), "--rank", "2"]) == 0
    assert Path(by_rank[2]).name in capsys.readouterr().out


def _without_metadata(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    contents = json.loads(gzip.decompress(source.read_bytes()))
    del contents["distributedInfo"]
    target.write_text(json.dumps(contents))


def test_options_of_one_trace_are_refused_for_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    error = "--step-time is for one trace, not for the ranks of a job"
    assert failure_of(capsys, "report", str(NCCL4), "--step-time", "3ms") == error
    error = "--short, --gpu and --proof are for one trace, not for the ranks of a job"
    assert failure_of(capsys, "show", str(NCCL4), "ranks", "--proof", "p", "--gpu", "H100", "--short", "5us") == error
    assert "--timeline corrected" in failure_of(capsys, "report", str(NCCL4), "--timeline", "corrected")
    assert "is not a cluster" in failure_of(capsys, "report", str(NCCL4), "--cluster", "nowhere")


def test_a_gpu_in_the_settings_does_not_refuse_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "warplens.toml").write_text('gpu = "H100 SXM"')
    monkeypatch.chdir(tmp_path)
    assert len(rows_of(capsys, "show", str(NCCL4), "ranks")) == 4


def test_folders_without_ranks_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert failure_of(capsys, "report", str(tmp_path)) == f"{tmp_path} is empty"
    (tmp_path / "notes.txt").write_text("x")
    assert failure_of(capsys, "report", str(tmp_path)) == f"{tmp_path} has no profiles"
    (tmp_path / "a.json").write_text('{"a": 1}')
    assert "no rank could be read: JSON, but not a trace" in failure_of(capsys, "report", str(tmp_path))
    assert failure_of(capsys, "report", f"{tmp_path}/rank*.json") == f"no such file or folder: {tmp_path}/rank*.json"


def test_what_is_wrong_with_some_ranks_is_noted_and_the_others_are_analysed(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job / "rank0.json.gz").write_bytes(b"garbage")
    (job / "rank1.json.gz").unlink()
    shutil.copy(job / "rank2.json.gz", job / "copy_of_rank2.json.gz")
    notes = notes_of(capsys, job)
    assert notes[0] == "rank 0 could not be read: not a known profile format (text, but not JSON)"
    assert notes[1] == "1 rank of 4 missing: 1"
    assert any(note.startswith("rank 2: there is more than one file; left out: ") for note in notes)
    assert any("truth.json was left out: JSON, but not a trace" in note for note in notes)
    assert [row["rank"] for row in rows_of(capsys, "show", str(job), "ranks")] == [2, 3]


def test_a_truncated_rank_is_noted(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.decompress((job / "rank3.json.gz").read_bytes())
    (job / "rank3.json.gz").write_bytes(gzip.compress(whole[: len(whole) * 3 // 4]))
    assert any(note.startswith("rank 3: ") for note in notes_of(capsys, job))
    assert len(rows_of(capsys, "show", str(job), "ranks")) == 4


def test_the_same_remark_on_many_ranks_is_one_note(capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = notes_of(capsys, NCCL4)
    assert first.startswith("4 ranks (0, 1, 2, 3), such as rank 0: 337 GPU events without a recorded launch")
    assert not any("without a recorded launch" in note for note in others)


def test_one_rank_only_is_noted(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(job / "rank2.json.gz", alone)
    notes = notes_of(capsys, alone)
    assert "one rank only: there is nothing to compare it with; --rank 2 opens it as a trace" in notes
    assert main(["show", str(alone), "steps", "--rank", "2"]) == 0
    assert "3 ranks of 4 missing: 0, 1, 3" in notes
    assert main(["tree", str(alone)]) == 0


def test_captures_beside_the_ranks_are_no_ranks(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = notes_of(capsys, job)
    (job / "rank0.capture.json").write_text(json.dumps({"traceEvents": capture()}))
    assert len(rows_of(capsys, "show", str(job), "ranks")) == 4
    (note,) = set(notes_of(capsys, job)) - set(before)
    assert note.startswith("1 trace of graph captures not joined in a job; one rank is joined with its own: --rank N")


def test_two_jobs_in_one_folder_are_told_apart(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in RANKS[:3]:
        shutil.copy(path, job)
    sources = [str(row["source"]) for row in rows_of(capsys, "show", str(job), "ranks")]
    assert [Path(source).name for source in sources] == [f"rank{rank}.json.gz" for rank in range(4)]
    assert any(note.startswith("3 files were left out, such as") and note.endswith(": another run")
               for note in notes_of(capsys, job))  # fmt: skip


def test_two_jobs_of_the_same_moment_are_told_apart_by_their_names(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_job(tmp_path / "other", JobSpec(grid=Grid(dp=4), steps=3, events=150, layers=1, seed=1))
    for rank in range(3):
        shutil.copy(tmp_path / "other" / f"rank{rank}.json.gz", job / f"again_rank{rank}.json.gz")
    sources = [str(row["source"]) for row in rows_of(capsys, "show", str(job), "ranks")]
    assert [Path(source).name for source in sources] == [f"rank{rank}.json.gz" for rank in range(4)]


def test_a_converted_file_beside_the_ranks_is_skipped(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = notes_of(capsys, job)
    assert main(["convert", str(job / "rank1.json.gz"), "-o", str(job / "rank1.perfetto.json.gz")]) == 0
    capsys.readouterr()
    assert notes_of(capsys, job) == before


def test_the_commands_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    text = (ROOT / "docs" / "guides" / "ranks.md").read_text("utf-8")
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^warplens (.*samples/.+)$", text, re.MULTILINE)
    verbs = ["report", "advise", "show", "tree", "convert", "gantt", "unique"]
    assert [command.split()[0] for command in commands] == verbs
    for command in commands:
        assert main(shlex.split(command)) == 0
    assert all((tmp_path / name).exists() for name in ("job.perfetto.json.gz", "job.svg", "job.html"))
    capsys.readouterr()
    assert main(shlex.split(commands[2])) == 0
    assert capsys.readouterr().out.strip() in text  # the table of ranks, as it is printed


def test_unique_kernels_of_a_job_are_one_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["unique", str(NCCL4), "--json", "-o", str(tmp_path / "u.xlsx"), "-o", str(tmp_path / "u.html")]) == 0
    out, said = capsys.readouterr()
    rows = json.loads(out)
    assert len(rows) == 39
    assert {row["ranks"] for row in rows} == {4}
    assert rows[0]["kernel_short"] == "nccl AllReduce sum f32 RING_LL"
    assert (rows[0]["count"], rows[0]["per_rank_us"]) == (196, pytest.approx(rows[0]["total_us"] / 4))
    assert "wrote" in said
    assert main(["unique", str(NCCL4)]) == 0
    assert capsys.readouterr().out.count("one row per") == 1
    assert main(["unique", str(NCCL4), "--table", "units"]) == 2
    assert "units is a table of one trace, not of a job" in capsys.readouterr().err
    assert main(["unique", str(NCCL4), "--table", "units", "--rank", "2"]) == 0
