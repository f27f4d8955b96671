"""The collection of bytecode: modules come from it as from their own files, and not once these have changed."""

from __future__ import annotations

import importlib
import os
import py_compile
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import SAMPLES
from warplens.collected import modules
from warplens.collected.modules import CollectedModules

MODULES = {
    "__init__.py": "",
    "one.py": "name = 'one'\n",
    "inner/__init__.py": "name = 'inner'\n",
    "inner/two.py": "name = 'two'\n",
}
NAMES = ("collecting.one", "collecting.inner", "collecting.inner.two")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package whose modules have been imported, and with them written as bytecode."""
    folder = tmp_path / "collecting"
    for file, text in MODULES.items():
        (folder / file).parent.mkdir(exist_ok=True, parents=True)
        (folder / file).write_text(text)
    monkeypatch.setattr(modules, "PACKAGES", {"collecting"})
    monkeypatch.setattr(modules, "MOST_MISSING", 2)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(tmp_path)
    for name in NAMES:
        importlib.import_module(name)
    yield folder
    for name in ("collecting", *NAMES):
        sys.modules.pop(name, None)


@pytest.fixture
def collection(package: Path, tmp_path: Path) -> Path:
    CollectedModules(tmp_path / "kept.modules").renew()
    return tmp_path / "kept.modules"


def found(collection: Path, package: Path, name: str) -> object:
    folder = package / "inner" if name.endswith("two") else package
    return CollectedModules(collection).find_spec(name, [str(folder)])


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_the_one_that_python_finds(collection: Path, package: Path, name: str) -> None:
    expected = sys.modules[name].__spec__
    spec = found(collection, package, name)
    for field in ("name", "origin", "cached", "has_location", "parent", "submodule_search_locations"):
        assert getattr(spec, field) == getattr(expected, field)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    module.__spec__.loader.exec_module(module)  # type: ignore[union-attr]
    assert module.name == name.rpartition(".")[2]


def test_a_changed_module_is_left_to_python(collection: Path, package: Path) -> None:
    (package / "one.py").write_text("name = 'another'\n")
    assert found(collection, package, "collecting.one") is None
    (package / "inner" / "two.py").unlink()
    assert found(collection, package, "collecting.inner.two") is None
    assert found(collection, package, "collecting.inner") is not None


def test_a_module_in_another_folder_or_one_of_several_is_left_to_python(collection: Path, package: Path) -> None:
    code = CollectedModules(collection)
    assert code.find_spec("collecting.one", [str(package.parent)]) is None
    assert code.find_spec("collecting.one", [str(package), str(package.parent)]) is None
    assert code.find_spec("collecting.one") is None
    assert code.find_spec("collecting.three", [str(package)]) is None


@pytest.mark.parametrize("size", [0, 10, 30])
def test_a_cut_collection_is_none(collection: Path, package: Path, size: int) -> None:
    collection.write_bytes(collection.read_bytes()[:size])
    assert found(collection, package, "collecting.one") is None


def test_code_that_is_cut_is_read_from_its_own_file(collection: Path, package: Path) -> None:
    collection.write_bytes(collection.read_bytes()[:-20])
    spec = found(collection, package, "collecting.inner.two")
    assert spec.loader.get_code("collecting.inner.two").co_consts[0] == "two"  # type: ignore[attr-defined]


def test_code_that_was_compiled_under_another_path_names_its_file(package: Path, tmp_path: Path) -> None:
    source = package / "one.py"
    source.write_text("def inner():\n    return lambda: 1\n")
    py_compile.compile(str(source), dfile="elsewhere/one.py")
    CollectedModules(tmp_path / "kept.modules").renew()
    spec = found(tmp_path / "kept.modules", package, "collecting.one")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    module.__spec__.loader.exec_module(module)  # type: ignore[union-attr]
    assert {module.inner.__code__.co_filename, module.inner().__code__.co_filename} == {str(source)}


def test_a_collection_grows_with_what_is_imported(collection: Path, package: Path) -> None:
    before = collection.stat().st_mtime_ns
    CollectedModules(collection).renew()
    assert collection.stat().st_mtime_ns == before
    for number in range(3):
        (package / f"new{number}.py").write_text("")
        importlib.invalidate_caches()
        importlib.import_module(f"collecting.new{number}")
    CollectedModules(collection).renew()
    assert found(collection, package, "collecting.new2") is not None
    assert found(collection, package, "collecting.one") is not None
    for number in range(3):
        sys.modules.pop(f"collecting.new{number}")


def test_modules_without_bytecode_do_not_make_it_again_at_every_end(package: Path, tmp_path: Path) -> None:
    collection = tmp_path / "kept.modules"
    for file in package.rglob("*.pyc"):
        file.unlink()
    CollectedModules(collection).renew()
    assert found(collection, package, "collecting.one") is None
    before = collection.stat().st_mtime_ns
    CollectedModules(collection).renew()
    assert collection.stat().st_mtime_ns == before


def test_nothing_is_written_where_python_writes_no_bytecode(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    CollectedModules(tmp_path / "kept.modules").renew()
    assert not (tmp_path / "kept.modules").exists()


def test_a_verb_collects_what_it_imports() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    show = [sys.executable, "-m", "warplens", "show", str(SAMPLES[0]), "kernels"]
    subprocess.run(show, check=True, capture_output=True, env=environment)
    ask = (
        "from warplens.collected import collected; collected().use()\n"
        "import polars.expr.expr as module; print(type(module.__spec__.loader).__module__)"
    )
    printed = subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True, env=environment)
    assert printed.stdout == "warplens.collected.modules\n"
