"""`warplens kernel check` of CUDA C++ from the command line: text, tables, page, comparison and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from page_reader import PageData
from support import ROOT
from warplens.cli import main
from warplens_lab.cuda import toolkit
from warplens_run.base.errors import WarplensError

try:
    TOOLKIT = toolkit.require_toolkit()
except WarplensError as error:
    pytest.skip(f"{error.message}: {error.hint}", allow_module_level=True)
if not TOOLKIT.nvdisasm:
    pytest.skip("needs nvdisasm, which Triton brings", allow_module_level=True)
SAMPLES = ROOT / "samples" / "kernels" / "cuda"
PLAIN = str(SAMPLES / "transpose_plain.cu")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture(autouse=True)
def _use_the_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(place))


def test_a_conflict_is_shown_with_its_remedy_and_gone_after_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, after = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    assert main(["kernel", "check", f"{PLAIN}::transpose", "--arch", "sm90", "-o", before]) == 0
    shown = capsys.readouterr().out
    assert "transpose on sm90, block=32×8\n  (const float* in, float* out, int width, int height; NVRTC" in shown
    assert "shared      load of tile[32][32]: 32 bits, 32-way bank conflict  transpose_plain.cu:19" in shown
    assert "WK106  shared memory is accessed with bank conflicts  transpose_plain.cu:19" in shown
    assert main(["kernel", "check", str(SAMPLES / "transpose_padded.cu"), "-o", after]) == 0
    assert "nothing to suggest" in capsys.readouterr().out
    assert main(["kernel", "diff", before, after]) == 0
    assert [line.split("sm90")[1].rsplit(maxsplit=3) for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["    bank_conflicts", "31", "0", "improvement"],
        ["    extra_wavefronts", "992", "0", "improvement"],
        ["    bank conflict of load of tile, ways", "32", "1", "improvement"],
    ]
    assert main(["kernel", "diff", after, before]) == 1
    capsys.readouterr()
    assert main(["report", before]) == 0
    assert "transpose compiled for sm90: 1 suggestion" in capsys.readouterr().out


def test_the_page_links_the_source_with_ptx_and_machine_code(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["kernel", "check", PLAIN, "-o", str(page)]) == 0
    (check,) = PageData(page.read_text()).header["checks"]
    assert (check["kernel"], check["language"]) == ("transpose", "cuda")
    assert check["compiler"].startswith("NVRTC")
    assert [text["kind"] for text in check["texts"]] == ["ptx", "sass"]
    (function,) = check["sources"]
    assert function["text"][0].startswith("__global__ void transpose(")
    (read,) = (line for line in check["lines"] if line["place"]["line"] == 19)
    assert read["marks"][0]["text"] == "bank +31"
    assert read["instructions"] > 4


def test_tables_have_the_branches_and_the_barriers(capsys: pytest.CaptureFixture[str]) -> None:
    source = str(SAMPLES / "filter_divergent.cu")
    assert main(["kernel", "check", source, "--table", "kernel_branches", "--json"]) == 0
    rows = [row for row in json.loads(capsys.readouterr().out) if row["divergent"]]
    assert [(row["line"], row["difference"], row["lanes"], row["warps"]) for row in rows] == [(7, "lanes", 16, 8)]
    assert main(["kernel", "check", str(SAMPLES / "producer_consumer.cu"), "--table", "kernel_barriers", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["kind"], row["barrier"], row["warps"]) for row in rows if row["in_loop"]} == {
        ("arrive", "1–2", "0–3"),
        ("sync", "1–2", "4–7"),
        ("sync", "3–4", "0–3"),
        ("arrive", "3–4", "4–7"),
    }


UNMET = """
__global__ void __launch_bounds__(256) k(float* x) {
    if (threadIdx.x < 64) {
        asm volatile("bar.sync 1, 96;" ::: "memory");
        x[threadIdx.x] = 1;
    }
}
"""


def test_a_barrier_that_cannot_be_met_is_a_fault_with_status_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "unmet.cu"
    file.write_text(UNMET)
    assert main(["kernel", "check", str(file)]) == 1
    shown = capsys.readouterr().out
    assert "WK124  fault: a named barrier cannot be met  unmet.cu:4" in shown
    assert "barrier 1 in a block of 256 threads: it waits for 96 threads and 64 come" in shown
    assert main(["kernel", "check", str(file), "--table", "kernel_barriers", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["fault"], row["warps"]) == ("it waits for 96 threads and 64 come", "0–1")
    file.write_text(UNMET.replace("96", "64"))
    assert main(["kernel", "check", str(file)]) == 0
    assert main(["kernel", "check", str(SAMPLES / "producer_consumer.cu"), "--table", "kernel_schedule"]) == 0
    assert "warps 4–7  consumes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([PLAIN, "--sweep"], "--sweep is for Triton kernels"),
        ([PLAIN, "--signature", "i32"], "--signature is for Triton kernels"),
        ([PLAIN, "extra"], "unknown argument: extra"),
        ([PLAIN, "--block", "64,64"], "'64,64' is not a valid block"),
        ([f"{PLAIN}::nothing"], "transpose_plain.cu has no kernel nothing"),
        (["absent.cu"], "no such file: absent.cu"),
        (["k.py::f", "--signature", "i32", "--block", "32"], "--block is for CUDA C++"),
        (["k.py::f", "--signature", "i32", "-D", "A=1"], "-D is for CUDA C++"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "check", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_what_the_assembler_refuses_has_its_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "uneven.cu"
    file.write_text('__global__ void k(int* x) {\n    asm volatile("bar.sync 1, 100;" ::: "memory");\n}\n')
    assert main(["kernel", "check", str(file)]) == 1
    assert "does not compile: ptxas: Number of threads participating in barrier" in capsys.readouterr().out


def test_a_kernel_that_does_not_compile_is_shown_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "wrong.cu"
    file.write_text("__global__ void k(int* x) {\n    x[0] = missing;\n}\n")
    assert main(["kernel", "check", str(file)]) == 1
    assert (
        'does not compile (wrong.cu:2): identifier "missing" is undefined: x[0] = missing;' in capsys.readouterr().out
    )
