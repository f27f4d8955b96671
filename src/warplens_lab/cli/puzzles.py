"""`warplens kernel puzzles` and its verbs: list, start, check, hint, solution."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from warplens.cli.options import add_theme
from warplens.cli.rows import print_json
from warplens.cli.showing import themed
from warplens.outputs import Document, Target, choose_output, write
from warplens_lab.cli.puzzles_text import list_lines, result_lines
from warplens_lab.puzzles.catalogue import PUZZLES, find
from warplens_lab.puzzles.child import SECONDS, Answer, AnswerResult, check_answers
from warplens_lab.puzzles.files import answers_in, note_result, puzzle_of, status_in, text_of, write_starts
from warplens_lab.puzzles.listing import checks_table, puzzles_table
from warplens_lab.tracing import load
from warplens_lab.tracing.scene import kernel_scene
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.files import check_file
from warplens_run.base.temporary import temporary_folder
from warplens_run.cli.options import add_force, add_json, add_output, add_top, positive
from warplens_run.cli.printing import print_err, print_out, width
from warplens_run.cli.verb import Place, Verb, VerbGroup

if TYPE_CHECKING:
    from warplens_lab.puzzles.records import Puzzle, Report

PAGE_SUFFIX = ".check.html"


class ListPuzzlesVerb(Verb):
    """List the exercises, and which of them a folder has solved."""

    name = "list"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", nargs="?", metavar="DIR", help="folder with your files (default: . or ./puzzles)")
        add_top(parser)
        add_json(parser)

    def run(self, args: argparse.Namespace) -> int:
        folders = [Path(args.folder)] if args.folder else [Path(), Path("puzzles")]
        folder = next((path for path in folders if answers_in(path)), None)
        if args.folder and folder is None:
            raise UsageError(f"{args.folder} has no puzzle files", hint=f"warplens kernel puzzles start {args.folder}")
        if args.json:
            print_json(puzzles_table(folder), args.top)
            return 0
        for line in list_lines(folder):
            print_out(line)
        if folder is None:
            print_err("\nbegin with: warplens kernel puzzles start puzzles")
        return 0


class StartPuzzlesVerb(Verb):
    """Write a file for each exercise: its statement, and a kernel to complete."""

    name = "start"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", metavar="DIR", help="folder to write to")
        parser.add_argument("names", nargs="*", metavar="NAME", help="names or numbers of exercises (default: all)")
        add_force(parser)

    def run(self, args: argparse.Namespace) -> int:
        started = write_starts(Path(args.folder), [find(name) for name in args.names] or PUZZLES, force=args.force)
        if started.existing:
            names = ", ".join(path.name for path in started.existing)
            print_err(f"kept {names}: they exist already (--force overwrites them)")
        for path in started.written:
            print_out(path)
        first = (*started.written, *started.existing)[0]
        print_err(f"\nopen {first}, fill the gap, then: warplens kernel puzzles check {first}")
        return 0


class CheckPuzzlesVerb(Verb):
    """Run answers and explain the first thing that is wrong; the files are imported, which runs them."""

    name = "check"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="FILE|DIR", help="your own code: it is imported and run")
        add_output(parser, "the page of the explained launch (default: next to the file)", metavar="page.html")
        parser.add_argument("--open", action="store_true", help="open the page in a browser")
        parser.add_argument("--seconds", type=positive, metavar="N", help="CPU time limit per file (default 10)")
        add_theme(parser)
        add_top(parser)
        add_json(parser)

    def run(self, args: argparse.Namespace) -> int:

        if args.output:
            if choose_output(args.output).name != "html":
                raise UsageError(f"{args.output}: what is written there is a page", hint="end it in .html")
            check_file(Path(args.output), force=args.force, inputs=args.paths)
        answers, untouched = _answers([Path(path) for path in args.paths])
        explained, reports = False, []
        with temporary_folder() as folder:
            results = check_answers(answers, Path(folder), args.seconds or SECONDS)
            for (file, puzzle), result in zip(answers, results, strict=True):
                note_result(file, puzzle, passed=result.report.passed)
                # Of several answers the first that fails is explained; one thing at a time is enough to work on.
                whole = len(args.paths) == len(answers) == 1 or not (result.report.passed or explained)
                explained = explained or not result.report.passed
                page = _page(args, file, result) if whole else None
                reports.append((result.report, page))
                if not args.json:
                    for line in result_lines(result.report, puzzle, page, whole=whole, width=width(110)):
                        print_out(line, flush=True)
        if args.json:
            print_json(checks_table(reports), args.top)
        elif untouched:
            print_out(f"not started: {', '.join(puzzle.name for puzzle in untouched)}")
        return 0 if all(report.passed for report, _ in reports) and not untouched else 1


class HintVerb(Verb):
    """Show a hint for one exercise."""

    name = "hint"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="name or number of an exercise")
        parser.add_argument(
            "-n",
            "--number",
            type=positive,
            default=1,
            metavar="N",
            help="the N-th hint (default 1); later ones reveal more",
        )

    def run(self, args: argparse.Namespace) -> int:
        puzzle = find(args.name)
        if args.number > len(puzzle.hints):
            hint = f"warplens kernel puzzles solution {puzzle.name}"
            raise UsageError(f"{puzzle.name} has {len(puzzle.hints)} hints", hint=hint)
        print_out(puzzle.hints[args.number - 1])
        if args.number < len(puzzle.hints):
            print_err(f"(hint {args.number} of {len(puzzle.hints)}; the next one: -n {args.number + 1})")
        return 0


class SolutionVerb(Verb):
    """Show the reference solution of one exercise."""

    name = "solution"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="name or number of an exercise")

    def run(self, args: argparse.Namespace) -> int:
        print_out(text_of(find(args.name), "solution"), end="")
        return 0


def _answers(paths: Sequence[Path]) -> tuple[list[Answer], list[Puzzle]]:
    """The files to check, each with its puzzle; unchanged start files of a folder are not run."""
    answers: list[Answer] = []
    untouched: list[Puzzle] = []
    for path in paths:
        if not path.exists():
            raise UsageError(f"no such file: {path}", hint="warplens kernel puzzles start DIR writes the exercises")
        if not path.is_dir():
            answers.append((path, puzzle_of(path)))
            continue
        files = answers_in(path)
        if not files:
            raise UsageError(f"{path} has no puzzle files", hint=f"warplens kernel puzzles start {path}")
        for file, puzzle in files:
            if status_in(path, puzzle) == "not started":
                untouched.append(puzzle)
            else:
                answers.append((file, puzzle))
    return answers, untouched


def _program_link(report: Report) -> str:
    """Opens the page at the program that made the first mistake."""
    spots = [spot for problem in report.problems for spot in problem.spots]
    return f"#program={spots[0].number}" if spots else ""


def _page(args: argparse.Namespace, file: Path, result: AnswerResult) -> Path | None:
    """Writes the launch as a page: where it failed, on request, or where an earlier one would be stale."""
    own = file.with_name(file.stem + PAGE_SUFFIX)
    needed = not result.report.passed or args.output or args.open or own.exists()
    if result.trace is None or not needed:
        return None
    path = Path(args.output) if args.output else own
    try:
        scene = kernel_scene(load(result.trace))
        document = Document(scene.title, str(result.trace), {}, [], kind="kernel_trace", page=lambda: scene)
        write(Target(path, choose_output(PAGE_SUFFIX), force=args.force or not args.output), themed(document, args))
    except WarplensError as error:
        print_err(f"no page: {error}")
        return None
    if args.open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri() + _program_link(result.report))
    return path


class PuzzlesVerb(VerbGroup):
    """Learn Triton: exercises from a vector sum to attention, each with a checker that explains what is wrong.

      warplens kernel puzzles                          the exercises
      warplens kernel puzzles start DIR                a file for each: the statement, and a kernel with a gap
      warplens kernel puzzles check DIR/01_*.py        is it right? if not: which element, which program, which line
      warplens kernel puzzles hint softmax             a hint; -n 2 shows the next one
      warplens kernel puzzles solution softmax         the reference solution

    Everything runs on the CPU, in Triton's interpreter. Files that are checked are your own code: they are imported and
    run. Needs `pip install 'warplens[triton]'`.
    """

    name = "puzzles"
    places: ClassVar = {
        "list": Place(
            "warplens_lab.cli.puzzles:ListPuzzlesVerb", "List the exercises, and which of them a folder has solved"
        ),
        "start": Place(
            "warplens_lab.cli.puzzles:StartPuzzlesVerb",
            "Write a file for each exercise: its statement, and a kernel to complete",
        ),
        "check": Place(
            "warplens_lab.cli.puzzles:CheckPuzzlesVerb",
            "Run answers and explain the first thing that is wrong; the files are imported, which runs them",
        ),
        "hint": Place("warplens_lab.cli.puzzles:HintVerb", "Show a hint for one exercise"),
        "solution": Place("warplens_lab.cli.puzzles:SolutionVerb", "Show the reference solution of one exercise"),
    }
    default = "list"
