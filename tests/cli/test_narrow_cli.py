"""Terminals of 80 and 60 columns: every line fits, names stay readable, and no number is cut."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from support import ROOT, SAMPLES, nightly_after
from warplens.cli import main
from warplens.cli.verbs import all_verbs
from warplens_run.base.text import cell_width
from warplens_run.cli.printing import print_err

pytestmark = pytest.mark.usefixtures("one_cache")
TRACES = [path for path in SAMPLES if path.name in ("gpt2_train_step.json.gz", "cpu_mlp_train.json.gz")] + [
    ROOT / "samples" / "proton" / "tree_python.hatchet.gz",
    ROOT / "samples" / "jax" / "transformer_step.xplane.pb.gz",
]
GPT2 = TRACES[0] if "gpt2" in TRACES[0].name else TRACES[1]
COMMAND = re.compile(r"^(?:try)? {0,10}\s*warplens ")
Shown = Callable[..., list[str]]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    def lines(width: int, *words: str | Path) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        main([str(word) for word in words])
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.mark.parametrize("width", nightly_after(1, [60, 80]))
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
@pytest.mark.parametrize("verb", ["report", "advise", "tree", "unique", "show"])
def test_every_line_fits(shown: Shown, verb: str, path: Path, width: int) -> None:
    more = {"unique": ["--top", "5"], "show": ["kernels", "--top", "8"]}.get(verb, [])
    for line in shown(width, verb, path, *more):
        # A command to copy stays whole.
        assert cell_width(line) <= width or COMMAND.match(line)


@pytest.mark.parametrize("width", nightly_after(1, [60, 80]))
@pytest.mark.parametrize("words", [["explain"], ["explain", "kernels"], ["diff", GPT2, GPT2]], ids=str)
def test_explanations_and_comparisons_fit_too(shown: Shown, words: list[str | Path], width: int) -> None:
    for line in shown(width, *words):
        assert cell_width(line) <= width or COMMAND.match(line)


@pytest.mark.parametrize("width", nightly_after(1, [60, 80]))
def test_a_summary_has_the_numbers_of_a_wide_one(shown: Shown, width: int) -> None:
    wide, narrow = ("\n".join(shown(columns, "report", GPT2)) for columns in (200, width))
    numbers = re.compile(r"\d[\d.,]* ?(?:%|ms|µs|s)(?![\w])")
    assert set(numbers.findall(wide.split("top kernels")[0])) <= set(numbers.findall(" ".join(narrow.split())))
    for code in re.findall(r"^WL\d+", wide, re.MULTILINE):
        assert code in narrow


@pytest.mark.parametrize("width", nightly_after(1, [60, 80]))
def test_the_titles_and_evidence_of_findings_are_whole(shown: Shown, width: int) -> None:
    wide, narrow = (" ".join("\n".join(shown(columns, "advise", GPT2)).split()) for columns in (119, width))
    assert narrow == wide
    assert "…" not in re.sub(r"… \d+ more", "", narrow)


@pytest.mark.parametrize("width", nightly_after(1, [60, 80]))
def test_names_of_kernels_stay_readable_and_numbers_are_whole(shown: Shown, width: int) -> None:
    text = shown(width, "report", GPT2)
    at = next(number for number, line in enumerate(text) if "top kernels" in line)
    for line in text[at + 1 : text.index("", at)]:
        if line.startswith(" " * 20):  # a name goes on
            assert "…" not in line
            continue
        share, time, unit, rest = line.split(None, 3)
        assert re.fullmatch(r"[\d.]+%", share)
        assert re.fullmatch(r"[\d.,]+", time)
        assert unit in ("ms", "µs")
        assert "…" not in rest
    header, *rows = shown(width, "show", GPT2, "kernels", "--top", "10")[1:11]
    at = header.index("kernel_short")
    for row in rows:
        name = row[at:].split("  ")[0]
        assert "…" not in name or len(name) >= 24


SENTENCES = {
    # what says something in sentences, over traces with steps, graphs, a planted fault, and a tree
    "a verdict, notes and findings": ["report"],
    "advice": ["advise"],
    "quality": ["show", "quality"],
    "titles of findings": ["show", "findings"],
    "advice as a table": ["show", "findings", "--columns", "code,advice,evidence"],
    "what is behind findings": ["show", "evidence", "--top", "12"],
    "what changes are worth": ["what-if"],
}
SAMPLES_OF_SENTENCES = [
    *(path for path in SAMPLES if path.name in ("gpt2_train_step.json.gz", "cudagraph_infer.json.gz")),
    ROOT / "samples" / "faults" / "dataloader_stall.before.json.gz",
    ROOT / "samples" / "proton" / "tree_python.hatchet.gz",
]
MORE = re.compile(r"… [\d,]+ more")
LONGEST_WORD = 18
BAR = re.compile("[█▁-▏|]")


@pytest.mark.parametrize("path", nightly_after(2, SAMPLES_OF_SENTENCES), ids=lambda path: path.name)
@pytest.mark.parametrize("name", SENTENCES)
def test_every_word_of_a_wide_terminal_is_on_a_narrow_one(shown: Shown, name: str, path: Path) -> None:
    """But for columns that are hidden to fit, and named below."""
    verb, *more = SENTENCES[name]
    wide, *others = (shown(columns, verb, path, *more) for columns in (200, 120, 80, 60))
    for lines in others:
        text = "\n".join(lines)
        sentences = text.split("top kernels")[0]  # what follows are names of kernels and ops
        assert "…" not in MORE.sub("", sentences)
        if "hidden to fit" not in text and "top kernels" not in text:
            # A name that is longer than its column goes on below it.
            have = set(text.split())
            assert [word for word in words(wide) if len(word) <= LONGEST_WORD and word not in have] == []


def words(lines: list[str]) -> list[str]:
    """Without bars, whose length is that of the screen, and commands."""
    return [word for line in lines if not COMMAND.match(line) for word in line.split() if not BAR.search(word)]


def test_hints_on_a_terminal_are_folded_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    hint, command = (
        f"hint: {'several words ' * 9}".strip(),
        "next: warplens profile -o run.warplens program.py --steps 5 --warmup 3",
    )
    monkeypatch.setenv("COLUMNS", "60")
    for stream in (Terminal(), StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        print_err(f"{hint}\n{command}")
        *folded, last = stream.getvalue().splitlines()
        assert last == command
        assert [len(line) <= 60 for line in folded] == ([True] * 3 if stream.isatty() else [False])
        assert " ".join(" ".join(folded).split()) == hint


@pytest.mark.parametrize("width", nightly_after(1, [60, 80]))
def test_a_comparison_shows_the_times_of_both_sides(shown: Shown, width: int) -> None:
    lines = shown(width, "diff", GPT2, GPT2.with_name("gpt2_train_compiled.json.gz"), "--table", "diff_ops")
    assert {"op", "a_us", "b_us", "delta_us"} <= set(lines[1].split())
    assert all(cell_width(line) <= width for line in lines)


def test_descriptions_in_a_help_fit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for verb in [[], *([verb.name] for verb in all_verbs())]:
        with pytest.raises(SystemExit):
            main([*verb, "--help"])
        _usage, *description = capsys.readouterr().out.split("\npositional arguments:")[0].split("\n\n")
        lines = "\n\n".join(description).splitlines()
        assert [line for line in lines if len(line) > 80 and not COMMAND.match(line)] == []


@pytest.mark.parametrize("width", nightly_after(1, [60, 80]))
def test_what_a_row_is_about_is_the_last_to_be_hidden(shown: Shown, width: int) -> None:
    assert {"op", "params", "percent_of_roofline"} <= set(
        shown(width, "show", GPT2, "roofline", "--top", "1")[1].split()
    )
    assert {"op", "percent", "kernel_short"} <= set(shown(width, "show", GPT2, "kernels", "--top", "9")[1].split())


@pytest.mark.parametrize("lines", ["1", ""])
@pytest.mark.parametrize("width", nightly_after(2, [1, 20, 0, 2, 8, 39]))
def test_a_terminal_too_narrow_for_anything_gets_the_narrowest_lines(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, width: int, lines: str
) -> None:
    monkeypatch.setenv("LINES", lines)
    ncu = ROOT / "samples" / "ncu" / "ncu_raw.csv.gz"
    for words in (["report", GPT2], ["report", ncu], ["advise", GPT2], ["diff", GPT2, GPT2], ["explain", "kernels"]):
        assert shown(width, *words) == shown(width if width == 0 else 40, *words)
