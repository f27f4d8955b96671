"""The bytecode of the modules that verbs import, collected in one file.

A report imports 550 modules of a few packages. To look for each of them in its folder and to open its file takes
45 ms, a fifteenth of the report of a small trace. The collection holds what Python has written into its own files of
bytecode, lies among them, and a module of it counts as long as its source has the size and time that it had.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NamedTuple, cast

from warplens.errors import WarplensError
from warplens.files import write_whole

PACKAGES: Final = frozenset(("warplens", "polars", "numpy", "msgspec", "isal"))
"""What verbs import most of; the others are for Python to find."""
MOST_MISSING: Final = 8
"""So many modules may be missing in the collection before it is made again."""
CHECKED_BY_TIME: Final = MAGIC_NUMBER + bytes(4)
"""How bytecode begins that belongs to a source of a time and size; elsewhere a hash of the source follows."""
HEADER_BYTES: Final = 16


class Module(NamedTuple):
    """A module in the collection: its files, what its source was when it was compiled, and where its code is."""

    package_folder: str
    source: str
    bytecode: str
    is_package: bool
    time_ns: int
    size: int
    start: int
    end: int


class CollectedModules:
    """Finds modules in the collection; imports ask it before they look into folders."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._modules: dict[str, Module] = {}
        self._asked: frozenset[str] = frozenset()
        """Modules that were imported when the collection was made, those without usable bytecode among them."""
        self._changed = 0
        # Without a collection, or with one of another version, modules are found as ever.
        with suppress(OSError, EOFError, ValueError, TypeError):
            with path.open("rb") as file:
                stored = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
            self._modules, self._asked, self._code = _unpacked(stored)

    def use(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module of a package, where that is one folder: in several, another module of its name could come first."""
        module = self._modules.get(name)
        if module is None or path is None or path[0] != module.package_folder or len(path) != 1:
            return None
        if not _is_up_to_date(module):
            self._changed += 1
            return None
        loader = _Loader(name, module.source, self._code[module.start : module.end])
        spec = ModuleSpec(name, loader, origin=module.source, is_package=module.is_package)
        spec.has_location = True
        spec.cached = module.bytecode
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(module.source.rpartition(os.sep)[0])
        return spec

    def renew(self) -> None:
        """Keep the modules that were imported, if many of them were not in the collection."""
        imported = dict(_imported())
        missing = self._changed + sum(name not in self._asked for name in imported)
        if missing <= MOST_MISSING or sys.dont_write_bytecode or not os.access(self._path.parent, os.W_OK):
            return
        kept = {name: (each.source, each.bytecode, each.is_package) for name, each in self._modules.items()}
        for name, spec in imported.items():
            kept[name] = (spec.origin or "", spec.cached or "", spec.submodule_search_locations is not None)
        with suppress(WarplensError):
            write_whole(self._path, _packed(kept))

    def leave(self) -> None:
        sys.meta_path.remove(self)


class _Loader(SourceFileLoader):
    """Python's own loader of sources, which has the bytecode already."""

    def __init__(self, name: str, source: str, code: memoryview) -> None:
        super().__init__(name, source)
        self._code = code

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            return cast(CodeType, marshal.loads(self._code))
        except (EOFError, ValueError, TypeError):  # damaged on the disk
            return super().get_code(fullname)


def _is_up_to_date(module: Module) -> bool:
    try:
        status = os.stat(module.source)  # noqa: PTH116  # `Path` takes three times as long, 550 times
    except OSError:
        return False
    return status.st_mtime_ns == module.time_ns and status.st_size == module.size


def _imported() -> Iterator[tuple[str, ModuleSpec]]:
    """The modules within packages that Python or the collection has loaded from files of bytecode."""
    for name, module in list(sys.modules.items()):
        package, inner, _ = name.partition(".")
        spec = getattr(module, "__spec__", None) if inner and package in PACKAGES else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            yield name, spec


def _packed(files: dict[str, tuple[str, str, bool]]) -> bytes:
    """The collection as a file: a header with the size of the index, the index, and the code of all modules."""
    modules: dict[str, tuple[object, ...]] = {}
    code = bytearray()
    for name, (source, bytecode, is_package) in files.items():
        with suppress(OSError):
            status, stored = Path(source).stat(), Path(bytecode).read_bytes()
            if stored[:HEADER_BYTES] == CHECKED_BY_TIME + _uint32(int(status.st_mtime)) + _uint32(status.st_size):
                start = len(code)
                code += _compiled_at(source, stored[HEADER_BYTES:])
                own_folder = Path(source).parent
                package_folder = own_folder.parent if is_package else own_folder
                place = (str(package_folder), source, bytecode, is_package)
                modules[name] = (*place, status.st_mtime_ns, status.st_size, start, len(code))
    index = marshal.dumps((modules, list(files)))
    return CHECKED_BY_TIME + len(index).to_bytes(8, "little") + index + code


def _compiled_at(source: str, stored: bytes) -> bytes:
    """Bytecode whose tracebacks name this file: it may have been compiled under another path."""
    code = marshal.loads(stored)
    return stored if code.co_filename == source else marshal.dumps(_renamed(code, source))


def _renamed(code: CodeType, source: str) -> CodeType:
    inner = (_renamed(each, source) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=source, co_consts=tuple(inner))


def _uint32(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")


def _unpacked(stored: memoryview) -> tuple[dict[str, Module], frozenset[str], memoryview]:
    if stored[: len(CHECKED_BY_TIME)] != CHECKED_BY_TIME:
        raise ValueError("a collection of another version")
    end = HEADER_BYTES + int.from_bytes(stored[len(CHECKED_BY_TIME) : HEADER_BYTES], "little")
    modules, asked = marshal.loads(stored[HEADER_BYTES:end])
    return {name: Module(*fields) for name, fields in modules.items()}, frozenset(asked), stored[end:]
