"""Exercises: every solution passes, every start and every planted mistake is explained by element, program and line."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib.resources import as_file
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from support import nightly_after
from warplens_lab.compiling.loading import load_kernel
from warplens_lab.puzzles.catalogue import BY_NAME, PUZZLES, after, find
from warplens_lab.puzzles.checking import check_file, signature_of
from warplens_lab.puzzles.drawing import Draw
from warplens_lab.puzzles.files import (
    answers_in,
    note_result,
    puzzle_of,
    resource_of,
    status_in,
    text_of,
    write_starts,
)
from warplens_lab.puzzles.records import Report
from warplens_run.base.errors import UsageError

START_SAYS = {
    # puzzle: kind of its first problem, and words of the explanation
    "vector_add": ("out_of_bounds", "program 3 loads x_ptr[200], outside of x_ptr, which has 200 elements"),
    "scale_add": ("wrong_value", "b is not added"),
    "transpose": ("wrong_value", "out_ptr is transposed as a whole"),
    "row_sum": ("wrong_value", "program 0 has read x_ptr[0:2, 0:50] (64 elements)"),
    "long_row_sum": ("wrong_value", "only the first block of each row is summed"),
    "softmax": ("wrong_value", "the lanes past the end of the row count too, as zeros"),
    "online_softmax": ("wrong_value", "the sum so far is not rescaled"),
    "layer_norm": ("wrong_value", "x − mean is not divided by the standard deviation"),
    "histogram": ("wrong_value", "lanes of one store write it, of which only one counts"),
    "running_sum": ("wrong_value", "each block begins anew at zero"),
    "convolution": ("wrong_value", "only the middle weight is used"),
    "matmul": ("wrong_value", "for this element the reference solution reads a_ptr[0:16, 0:48]"),
    "linear": ("wrong_value", "neither b nor the maximum with 0 is applied"),
    "attention": ("wrong_value", "only the first block of keys is used"),
    "int8_matmul": ("wrong_value", "the scales are not applied"),
    "int4_matmul": ("wrong_value", "both weights of a byte are taken from its low half"),
    "outer_add": ("wrong_value", "y is not added"),
    "outer_multiply": ("wrong_value", "the maximum with 0 is taken of x and of y, not of their product"),
    "outer_multiply_backward": ("wrong_value", "the gradient passes to dx where the product is negative too"),
    "convolution_2d": ("wrong_value", "only the middle weight is used"),
}


def spoken(report: Report) -> str:
    """All that a report says, as one text."""
    parts = [(problem.text, *problem.details, problem.advice) for problem in report.problems]
    return "\n".join(line for part in parts for line in part)


def changed(puzzle: str, *changes: tuple[str, str]) -> str:
    """The solution with something done wrong."""
    text = text_of(BY_NAME[puzzle], "solution")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", nightly_after(8, BY_NAME))
def test_the_solution_passes_and_meets_the_goal(name: str) -> None:
    with as_file(resource_of(BY_NAME[name], "solution")) as path:
        report = check_file(path, BY_NAME[name]).report
    assert report.passed, spoken(report) or report.trouble
    assert report.cases_passed == len(BY_NAME[name].cases)
    assert report.costs is not None
    assert report.costs.goal_met is not False, report.costs
    if not name.startswith("convolution"):  # whose blocks overlap, and which have no goal
        assert report.costs.loaded_bytes == report.costs.least_loaded_bytes


@pytest.mark.parametrize("name", nightly_after(8, BY_NAME))
def test_the_start_fails_and_is_explained(name: str) -> None:
    with as_file(resource_of(BY_NAME[name], "start")) as path:
        checked = check_file(path, BY_NAME[name])
        lines = path.read_text().splitlines()
    report = checked.report
    kind, words = START_SAYS[name]
    assert not report.passed
    assert report.problems[0].kind == kind
    assert words in spoken(report)
    spot = report.problems[0].spots[0]
    assert spot.program.startswith("program ")
    assert spot.statement == lines[spot.line - 1].strip()
    assert checked.trace is not None
    assert checked.trace.launches[0].notes[1] == report.problems[0].text


@dataclass(frozen=True)
class Planted:
    puzzle: str
    change: tuple[str, str]
    kind: str
    text: str
    program: str
    statement: str
    more: str = ""


PLANTED = {
    "missing mask": Planted(
        "vector_add", ("x + y, mask=mask", "x + y"), "out_of_bounds",
        "program 3 stores out_ptr[200], outside of out_ptr, which has 200 elements", "program 3", "tl.store(",
        "56 elements in 1 program",
    ),
    "mask too long by one": Planted(
        "vector_add", ("offsets < n", "offsets <= n"), "out_of_bounds",
        "program 3 loads x_ptr[200]", "program 3", "x = tl.load(",
    ),
    "mask too short by one": Planted(
        "vector_add", ("offsets < n", "offsets < n - 1"), "not_written",
        "out_ptr[63] should be 1.93964, but no program wrote it", "program 0", "tl.store(",
        "the store of program 0 covers it, but its mask is off there",
    ),
    "one bound only": Planted(
        "scale_add", ("(i[:, None] < rows) & (j[None, :] < columns)", "j[None, :] < columns"), "out_of_bounds",
        "program (1, 0) loads x_ptr[10, 0], outside of x_ptr, which is 10 × 21", "program (1, 0)", "x = tl.load(",
    ),
    "index below zero": Planted(
        "convolution", ("(near >= 0) & (near < n)", "near < n"), "out_of_bounds",
        "program 0 loads x_ptr[-1]", "program 0", "x = tl.load(", "an index below 0 must be switched off too",
    ),
    "wrong index": Planted(
        "scale_add", ("tl.load(b_ptr + j,", "tl.load(b_ptr + j // 2,"), "wrong_value",
        "out_ptr[0, 1] should be", "program (0, 0)", "tl.store(",
        "for this element the reference solution reads b_ptr[0:16]",
    ),
    "blocks overlap": Planted(
        "vector_add", ("tl.program_id(0) * BLOCK", "tl.program_id(0)"), "write_write_race",
        "program 1 stores out_ptr[1], and program 0 stores it too", "program 1", "tl.store(",
    ),
    "race in a sum": Planted(
        "histogram", ("tl.atomic_add(counts_ptr + x, 1, mask=mask)",
                      "tl.store(counts_ptr + x, tl.load(counts_ptr + x, mask=mask) + 1, mask=mask)"),
        "read_write_race", "program 1 loads counts_ptr[12], and program 0 stores it too: on a GPU either may come first", "program 1", "tl.store(",
    ),
    "strides of x swapped": Planted(
        "transpose", ("i[:, None] * x_row_stride + j[None, :] * x_column_stride",
                      "i[:, None] * x_column_stride + j[None, :] * x_row_stride"),
        "wrong_value", "out_ptr[0, 1] should be -0.0835282, but is 0.395631", "program (0, 0)", "tl.store(",
        "transposed as a whole",
    ),
    "rows taken as contiguous": Planted(
        "transpose", ("j[None, :] * out_row_stride", "j[None, :] * rows"), "stray_store",
        "program (0, 0) stores to the memory of out_ptr outside of its elements, 20 elements after",
        "program (0, 0)", "tl.store(", "is what out_ptr[1, 3] should hold",
    ),
    "reads between the rows": Planted(
        "row_sum", ("row * row_stride", "row * columns"), "uninitialised_read",
        "program 1 loads x_ptr between its rows (20 after its first element)", "program 1", "x = tl.load(",
    ),
    "lanes that hold anything": Planted(
        "row_sum", (", other=0.0", ""), "wrong_value",
        "out_ptr[0] should be 3.678", "program 0", "tl.store(",
        "the load at line 11 has a mask but no other=",
    ),
    "overflow": Planted(
        "softmax", (" - tl.max(x, axis=0)", ""), "wrong_value",
        "out_ptr[0, 0] should be 0.000442612, but is nan", "program 0", "tl.store(", "exp of a large number is inf",
    ),
    "input overwritten": Planted(
        "vector_add", ("tl.store(out_ptr", "tl.store(x_ptr"), "input_changed",
        "program 0 stores to x_ptr[0], which is an input", "program 0", "tl.store(",
    ),
    "output read": Planted(
        "row_sum", ("tl.sum(x, axis=0))", "tl.sum(x, axis=0) + tl.load(out_ptr + row))"), "uninitialised_read",
        "program 0 loads out_ptr[0], where nothing was written", "program 0", "tl.store(",
        "an output holds nothing before the kernel has written it",
    ),
    "known mistake": Planted(
        "attention", ("out * shrink[:, None]", "out"), "wrong_value",
        "out_ptr[0, 0, 0] should be", "program 0", "tl.store(",
        "the results so far are not rescaled when a later block raises the maximum",
    ),
    "steps instead of elements": Planted(
        "matmul", ("range(0, k, BLOCK_K)", "range(0, k // BLOCK_K)"), "wrong_value",
        "c_ptr[0, 0] should be", "program (0, 0)", "tl.store(", "the offsets along k lack · BLOCK_K",
    ),
    "scales beside the rows": Planted(
        "int8_matmul", ("scale[None, :]", "scale[:, None]"), "wrong_value",
        "c_ptr[0, 1] should be", "program (0, 0)", "tl.store(", "goes down the rows of the tile",
    ),
    "bias beside the rows": Planted(
        "linear", ("b[None, :]", "b[:, None]"), "wrong_value",
        "y_ptr[0, ", "program 0", "tl.store(", "goes down the rows of the tile",
    ),
    "a block as carry": Planted(
        "running_sum", ("carry += tl.sum(x, axis=0)", "carry += x"), "wrong_value",
        "out_ptr[0, 16] should be", "program 0", "tl.store(", "the carry is a block, lane by lane",
    ),
    "a running carry": Planted(
        "running_sum", ("carry += tl.sum(x, axis=0)", "carry += tl.cumsum(x, axis=0)"), "wrong_value",
        "out_ptr[0, 16] should be", "program 0", "tl.store(", "the carry is the running sum",
    ),
    "maximum not kept": Planted(
        "online_softmax", ("        highest = higher\n", ""), "wrong_value",
        "out_ptr[0, 0] should be", "program 0", "tl.store(", "highest is not kept from block to block",
    ),
    "mask of another index": Planted(
        "long_row_sum", ("mask=offsets < columns", "mask=offsets - start < columns"), "out_of_bounds",
        "outside of x_ptr", "program 4", "total += tl.load(", "the mask lets these lanes through",
    ),
    "zeros past the end": Planted(
        "online_softmax", ("other=-float(\"inf\")", "other=0.0"), "wrong_value",
        "should be", "program 0", "tl.store(", "the lanes past the end of the row count too, as zeros",
    ),
    "even columns twice": Planted(
        "int4_matmul", ("even[None, :] + 1", "even[None, :]"), "wrong_value",
        "c_ptr[0, 0] should be", "program (0, 0)", "tl.store(", "both halves of a byte meet the even columns of a",
    ),
    "variance of large numbers": Planted(
        "layer_norm", ("tl.sum(centred * centred, axis=0) / columns", "tl.sum(x * x, axis=0) / columns - mean * mean"), "wrong_value",
        "should be", "program 0", "tl.store(", "nearly right, ",
    ),
    "columns of neighbours unmasked": Planted(
        "convolution_2d", (" & (column >= 0) & (column < width)", ""), "out_of_bounds",
        "program (0, 0, 0) loads x_ptr before its first element (by 1), outside of x_ptr", "program (0, 0, 0)",
        "x = tl.load(", "the neighbours of a row's ends are taken from the rows beside it",
    ),
    "one image for all": Planted(
        "convolution_2d", ("x_ptr + image + row", "x_ptr + row"), "wrong_value",
        "out_ptr[1, 0, 0] should be", "program (1, 0, 0)", "tl.store(", "every image is computed from the first one",
    ),
    "window turned around": Planted(
        "convolution_2d", ("s * wide + t", "(tall - 1 - s) * wide + wide - 1 - t"), "wrong_value",
        "out_ptr[0, 0, 0] should be", "program (0, 0, 0)", "tl.store(", "w is turned around",
    ),
    "columns down the rows": Planted(
        "outer_add", ("x[:, None] + y[None, :]", "x[:, None] + tl.sum(y, axis=0)"), "wrong_value",
        "out_ptr[0, 0] should be", "program 0", "tl.store(", "all 512 elements are wrong",
    ),
    "relu too early": Planted(
        "outer_multiply", ("tl.maximum(product, 0.0)", "product"), "wrong_value",
        "out_ptr[0, ", "program 0", "tl.store(", "the maximum with 0 is not taken",
    ),
    "one gradient without its factor": Planted(
        "outer_multiply_backward", ("passed * x[:, None]", "passed"), "wrong_value",
        "dy_ptr[0] should be", "program 0", "tl.atomic_add(dy_ptr", "the factor x is missing in dy",
    ),
    "gradients stored, not added": Planted(
        "outer_multiply_backward", ("tl.atomic_add(dx_ptr", "tl.store(dx_ptr"), "write_write_race",
        "program (0, 1) stores dx_ptr[0], and program (0, 0) stores it too", "program (0, 1)", "tl.store(dx_ptr",
    ),
    "mask of two dimensions": Planted(
        "scale_add", ("mask=j < columns", "mask=mask"), "error",
        "to have shape", "program (0, 0)", "tl.store(", "need a mask of one dimension",
    ),
    "shapes that do not meet": Planted(
        "scale_add", ("b[None, :]", "b[:, None]"), "error",
        "incompatible dimensions", "program (0, 0)", "tl.store(", "Which index counts the rows of the tile",
    ),
    "raises": Planted(
        "matmul", ("tl.dot(a, b, c)", "tl.dot(a, bb, c)"), "error",
        "program (0, 0) raised NameError: name 'bb' is not defined", "program (0, 0)", "c = tl.dot(",
    ),
    "assertion": Planted(
        "row_sum", ("    tl.store", "    tl.device_assert(row < 3)\n    tl.store"), "assertion",
        "program (3, 0, 0)", "program 3", "tl.device_assert(",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", nightly_after(10, PLANTED))
def test_a_planted_mistake_is_explained_by_element_program_and_line(name: str, tmp_path: Path) -> None:
    planted = PLANTED[name]
    file = tmp_path / "answer.py"
    file.write_text(changed(planted.puzzle, planted.change))
    report = check_file(file, puzzle_of(file)).report
    assert not report.passed
    problem = next(candidate for candidate in report.problems if candidate.kind == planted.kind)
    assert planted.text in problem.text
    assert planted.more in spoken(report)
    spot = problem.spots[0]
    assert spot.program == planted.program
    assert spot.statement == file.read_text().splitlines()[spot.line - 1].strip()
    assert spot.statement.startswith(planted.statement)


def test_a_right_answer_that_reads_too_much_is_reported(tmp_path: Path) -> None:
    one_pass = (
        "        higher = tl.maximum(highest, tl.max(x, axis=0))\n        total = total * tl.exp(highest - higher) + "
    )
    two = (
        "        highest = tl.maximum(highest, tl.max(x, axis=0))\n"
        "    for start in range(0, columns, BLOCK):\n"
        "        offsets = start + tl.arange(0, BLOCK)\n"
        '        x = tl.load(x_ptr + row + offsets, mask=offsets < columns, other=-float("inf"))\n'
        "        higher = highest\n        total += "
    )
    file = tmp_path / "answer.py"
    file.write_text(changed("online_softmax", (one_pass, two)))
    report = check_file(file, find("online_softmax")).report
    assert report.passed
    assert report.costs is not None
    assert report.costs.loaded_bytes == 1.5 * report.costs.least_loaded_bytes
    assert report.costs.goal_met is False
    assert report.costs.notes[0].startswith("a program reads its part of x_ptr 3.0 times over (lines ")


def test_the_order_of_programs_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "answer.py"
    start = text_of(find("linear"), "start")
    bias = "    b = tl.load(b_ptr + columns, mask=columns < n, other=0.0)\n    y = tl.maximum(y + b[None, :], 0.0)\n"
    file.write_text(start.replace("    # TODO: add b, and take the maximum with 0.\n", bias))
    report = check_file(file, find("linear")).report
    assert report.passed
    assert report.costs is not None
    assert report.costs.goal_met is False
    assert report.costs.goal_value == "57 % distinct"  # 9 strips of 16, and the bias


BAD_ANSWERS = {
    "softmax.py, line 11: invalid syntax": ("mask = offsets < columns", "mask = offsets <"),
    "softmax must take (x_ptr, out_ptr, columns, BLOCK); the file's takes (x_ptr, out_ptr, n, BLOCK)": (
        "out_ptr, columns,",
        "out_ptr, n,",
    ),
    "BLOCK of softmax must be known when it is compiled": ("BLOCK: tl.constexpr", "BLOCK"),
    "softmax in softmax.py is not a Triton kernel": ("@triton.jit\n", ""),
    "softmax.py has no kernel softmax": ("def softmax", "def softmaxx"),
    "softmax.py, line 4: ModuleNotFoundError": ("import triton.language as tl", "import triton.languish as tl"),
    "softmax.py ends the process when it is imported": ("import triton\n", "import triton\nraise SystemExit\n"),
}


@pytest.mark.parametrize("words", BAD_ANSWERS)
def test_a_file_that_cannot_be_launched_is_one_line(words: str, tmp_path: Path) -> None:
    file = tmp_path / "softmax.py"
    file.write_text(changed("softmax", BAD_ANSWERS[words]))
    checked = check_file(file, find("softmax"))
    assert not checked.report.passed
    assert checked.report.trouble.startswith(words)
    assert "\n" not in checked.report.trouble


def test_the_statements_agree_with_the_catalogue() -> None:
    assert [puzzle.number for puzzle in PUZZLES] == list(range(1, len(PUZZLES) + 1))
    assert after(PUZZLES[-1]) is None
    for puzzle in PUZZLES:
        statement = ast.get_docstring(ast.parse(text_of(puzzle, "start"))) or ""
        assert statement.startswith(f"{puzzle.number}. {puzzle.name}: ")
        assert f"Launched as   {puzzle.name}[(" in statement
        assert puzzle.goal is None or puzzle.goal.words in " ".join(statement.split())
        assert len(puzzle.hints) >= 3
        assert "# TODO" in text_of(puzzle, "start")
        assert ast.get_docstring(ast.parse(text_of(puzzle, "solution")))


@pytest.mark.parametrize("name", BY_NAME)
def test_the_compiler_gets_a_signature_that_fits(name: str) -> None:
    puzzle = BY_NAME[name]
    text = signature_of(puzzle.case(puzzle.measured, Draw(0)))
    with as_file(resource_of(puzzle, "solution")) as path:
        signature = load_kernel(f"{path}::{name}").signature(text)
    assert signature.text() == text


def test_a_folder_keeps_what_is_there_and_knows_what_is_solved(tmp_path: Path) -> None:
    puzzles = (find("vector_add"), find("row_sum"))
    assert len(write_starts(tmp_path, puzzles).written) == 2
    file = tmp_path / puzzles[0].file_name
    assert status_in(tmp_path, puzzles[0]) == "not started"
    file.write_text(text_of(puzzles[0], "solution"))
    assert status_in(tmp_path, puzzles[0]) == "begun"
    note_result(file, puzzles[0], passed=True)
    assert status_in(tmp_path, puzzles[0]) == "solved"
    assert write_starts(tmp_path, puzzles).existing == tuple(path for path, _ in answers_in(tmp_path))
    assert status_in(tmp_path, puzzles[0]) == "solved"
    file.write_text(file.read_text() + "\n")
    assert status_in(tmp_path, puzzles[0]) == "begun"
    write_starts(tmp_path, puzzles, force=True)
    assert status_in(tmp_path, puzzles[0]) == "not started"


def test_files_of_the_first_sixteen_keep_their_names() -> None:
    names = [puzzle.file_name for puzzle in PUZZLES]
    assert [names[at] for at in (0, 5, 15)] == ["01_vector_add.py", "06_softmax.py", "16_int4_matmul.py"]
    assert names[16:] == [
        "17_outer_add.py",
        "18_outer_multiply.py",
        "19_outer_multiply_backward.py",
        "20_convolution_2d.py",
    ]


def test_nothing_is_noted_in_a_folder_of_another_kind(tmp_path: Path) -> None:
    file = tmp_path / "01_vector_add.py"
    file.write_text(text_of(find("vector_add"), "solution"))
    note_result(file, find("vector_add"), passed=True)
    assert [path.name for path in tmp_path.iterdir()] == ["01_vector_add.py"]


def test_a_file_is_known_by_its_name_or_by_its_kernel(tmp_path: Path) -> None:
    mine, none = tmp_path / "mine.py", tmp_path / "none.py"
    mine.write_text(text_of(find("matmul"), "start"))
    none.write_text("x = 1\n")
    assert puzzle_of(mine).name == "matmul"
    assert puzzle_of(tmp_path / "06_softmax.py").name == "softmax"
    with pytest.raises(UsageError, match=r"none\.py has the kernel of no puzzle"):
        puzzle_of(none)
    with pytest.raises(UsageError, match="no such puzzle: 'sofmax'"):
        find("sofmax")
