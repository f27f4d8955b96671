"""The wheel and the source archive, installed where there is no checkout."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import warplens
from support import HANG_SECONDS, ROOT

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("pip", "setuptools")), reason="needs pip and setuptools"
)
SOURCES = ("src", "native", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
MADE = ("__pycache__", "*.egg-info", "*.so")
LIBRARY = "warplens/libwarplens_native.so"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
README_COMMANDS = re.findall(r"^(\.venv/bin/warplens [^#\n]+)", (ROOT / "README.md").read_text(), re.MULTILINE)


@dataclass(frozen=True)
class Distributions:
    archive: Path
    wheel: Path


@dataclass(frozen=True)
class Host:
    """A folder with a virtual environment, as the README has it, and the samples that its commands name."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / ".venv" / "bin" / "python"

    def run(self, *words: str | Path) -> str:
        return run([self.folder / words[0], *words[1:]], self.folder)


def run(words: list[str | Path], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert done.returncode == 0, f"{shlex.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The archive is made of the checkout's sources, the wheel of what the archive holds."""
    folder = tmp_path_factory.mktemp("built")
    checkout, dist = folder / "checkout", folder / "dist"
    checkout.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns(*MADE))
        else:
            shutil.copy(ROOT / name, checkout / name)
    build = [
        sys.executable,
        "-c",
        "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])",
    ]
    run([*build, "build_sdist", dist], checkout)
    [archive] = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
        else:
            tar.extractall(folder)
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    run([*build, "build_wheel", dist], unpacked)
    [wheel] = dist.glob("*.whl")
    return Distributions(archive, wheel)


@pytest.fixture(scope="module")
def host(built: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """What the packages depend on is taken from here: nothing is downloaded."""
    made = Host(tmp_path_factory.mktemp("host"))
    run([sys.executable, "-m", "venv", "--without-pip", ".venv"], made.folder)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", made.python]
    run([*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", built.wheel], made.folder)
    [packages] = made.folder.glob(".venv/lib/python*/site-packages")
    # A folder named here is only added to the path: the link in it that leads to the checkout is not followed.
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "dependencies.pth").write_text("\n".join(sorted(here)) + "\n")
    for sample in {word for command in README_COMMANDS for word in command.split() if word.startswith("samples/")}:
        target = made.folder / sample
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / sample).is_dir() else shutil.copy)(ROOT / sample, target)
    return made


def sources() -> set[str]:
    """Names of all files of the packages, but for those that installing or running makes."""
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".so")
    names = (file.relative_to(ROOT / "src").as_posix() for file in files)
    return {name for name in names if "__pycache__/" not in name and ".egg-info/" not in name}


def test_the_archive_has_every_source(built: Distributions) -> None:
    with tarfile.open(built.archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    native = {f"native/{path.name}" for path in (ROOT / "native").iterdir()}
    assert {f"src/{name}" for name in sources()} | native <= names
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py"} <= names


def test_the_wheel_made_of_the_archive_has_every_file_of_the_packages(built: Distributions) -> None:
    names = {name for name in zipfile.ZipFile(built.wheel).namelist() if ".dist-info/" not in name}
    assert names - {LIBRARY} == sources()
    assert (LIBRARY in names) == (shutil.which("g++") is not None)
    typed = {name.partition("/")[0] for name in names if name.endswith("/py.typed")}
    assert typed == {name.partition("/")[0] for name in names} == {"warplens", "warplens_lab", "warplens_run"}


def test_the_packages_are_imported_from_the_wheel(host: Host) -> None:
    code = (
        "import json, warplens, warplens_lab, warplens_run; from importlib.metadata import version; "
        "print(json.dumps([version('warplens'), *(m.__file__ for m in (warplens, warplens_lab, warplens_run))]))"
    )
    version, *files = json.loads(host.run(".venv/bin/python", "-c", code))
    assert version == warplens.__version__
    assert all(Path(file).is_relative_to(host.folder / ".venv") for file in files), files


def test_the_commands_of_the_readme_run(host: Host) -> None:
    assert len(README_COMMANDS) >= 4
    for command in README_COMMANDS:
        assert host.run(*shlex.split(command)), command
    assert (host.folder / "report.html").stat().st_size > 100_000


def test_the_packages_have_their_data(host: Host) -> None:
    """Also what no command of the README reads: signatures of ops, the C++ project, the puzzles."""
    [trace] = (host.folder / "samples" / "kineto").glob("*.json.gz")
    host.run(".venv/bin/warplens", "replay", "plan", trace, "-o", "plan.json")
    host.run(".venv/bin/warplens", "replay", "export-cpp", "plan.json", "-o", "replay")
    assert (host.folder / "replay" / "src" / "main.cpp").exists()
    assert "@triton.jit" in host.run(".venv/bin/warplens", "kernel", "puzzles", "solution", "softmax")
    assert "replay" in host.run(".venv/bin/python", "-m", "warplens_run", "--help")
