"""`kernel_puzzles` and `kernel_puzzle_checks`: the exercises and the checker's word on answers, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from warplens.model.table import Column, Table, frame_of_rows
from warplens_lab.puzzles.catalogue import PUZZLES
from warplens_lab.puzzles.files import status_in
from warplens_lab.puzzles.records import Costs, Problem, Report, Spot

PUZZLE_COLUMNS: Final = (
    Column("number", "number, as in the file's name; 1 to 16 build on those before them", "", pl.Int64),
    Column("puzzle", "name of the exercise and of its kernel", "", pl.String),
    Column("level", "first steps, easy, medium or hard", "", pl.String),
    Column("status", "of your file: solved, begun or not started", "", pl.String),
    Column("task", "what the kernel computes", "", pl.String),
    Column("teaches", "what there is to learn", "", pl.String),
)
CHECK_COLUMNS: Final = (
    Column("puzzle", "name of the exercise", "", pl.String),
    Column("file", "the answer", "", pl.String),
    Column("passed", "whether all cases are right and clean", "", pl.Boolean),
    Column("cases_passed", "cases before the first that failed", "", pl.Int64),
    Column("cases", "how many the puzzle has", "", pl.Int64),
    Column("case", "the case that failed, or whose costs are reported", "", pl.String),
    Column("problem", "kind of the first thing that is wrong", "", pl.String),
    Column("message", "the same as a sentence", "", pl.String),
    Column("tensor", "where it is wrong", "", pl.String),
    Column("index", "the first wrong element", "", pl.String),
    Column("expected", "what it should hold", "", pl.Float64),
    Column("got", "what it holds; null where it is not a number or was not written", "", pl.Float64),
    Column("program", "that wrote it, or made the mistake", "", pl.String),
    Column("line", "of the file", "", pl.Int64),
    Column("loaded_bytes", "what a right answer loads", "bytes", pl.Int64),
    Column("least_loaded_bytes", "what would do", "bytes", pl.Int64),
    Column("goal_met", "whether it reaches the goal besides being right", "", pl.Boolean),
    Column("page", "page of the launch", "", pl.String),
)


def puzzles_table(folder: Path | None = None) -> Table:
    rows = [
        {
            "number": puzzle.number,
            "puzzle": puzzle.name,
            "level": puzzle.level,
            "status": status_in(folder, puzzle) if folder is not None else "",
            "task": puzzle.task,
            "teaches": puzzle.teaches,
        }
        for puzzle in PUZZLES
    ]
    frame = frame_of_rows(PUZZLE_COLUMNS, rows)
    columns = [column for column in PUZZLE_COLUMNS if folder is not None or column.name != "status"]
    return Table.from_frame("kernel_puzzles", "exercises in Triton", columns, frame)


def checks_table(reports: Sequence[tuple[Report, Path | None]]) -> Table:
    rows = [_row(report, page) for report, page in reports]
    return Table.from_rows(
        "kernel_puzzle_checks", "answers to exercises, and the first thing wrong", CHECK_COLUMNS, rows
    )


def _row(report: Report, page: Path | None) -> dict[str, Any]:
    problem = report.problems[0] if report.problems else Problem("trouble" if report.trouble else "", report.trouble)
    spot = problem.spots[0] if problem.spots else Spot("", 0, 0, "")
    costs: Costs | None = report.costs
    return {
        "puzzle": report.puzzle,
        "file": report.file,
        "passed": report.passed,
        "cases_passed": report.cases_passed,
        "cases": report.cases,
        "case": report.case,
        "problem": problem.kind,
        "message": problem.text,
        "tensor": problem.tensor,
        "index": "" if problem.index is None else ", ".join(map(str, problem.index)),
        "expected": problem.expected,
        "got": problem.got,
        "program": spot.program,
        "line": spot.line or None,
        "loaded_bytes": costs.loaded_bytes if costs else None,
        "least_loaded_bytes": costs.least_loaded_bytes if costs else None,
        "goal_met": costs.goal_met if costs else None,
        "page": str(page) if page else "",
    }
