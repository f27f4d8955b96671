"""Builds the native reader where a C++ compiler is present; pyproject.toml has everything else.

The library has no part of Python in it and is loaded with ctypes, so one build serves every version of Python. Without
a compiler, or where compiling fails, the install goes on without it and Python reads the traces.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

LIBRARY = "warplens.libwarplens_native"
# Contraction would fuse a product and a sum into one rounding, and times into other nanoseconds than numpy's.
FLAGS = ["-std=c++17", "-O2", "-g0", "-fvisibility=hidden", "-ffp-contract=off"]


class BuildLibrary(build_ext):
    """A plain shared library: no initialiser of a Python module, and no version of Python in its name."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{Path(*fullname.split('.'))}.so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return list(ext.export_symbols or [])

    def build_extension(self, ext: Extension) -> None:
        """Its files are compiled on all cores: one after the other takes twice as long on two."""
        compile_files = self.compiler.compile

        def compile_at_once(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                parts = pool.map(lambda source: compile_files([source], **options), sources)
                return [file for objects in parts for file in objects]

        self.compiler.compile = compile_at_once
        super().build_extension(ext)


class PlatformWheel(bdist_wheel):
    """For one kind of machine, and any Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


library = Extension(
    LIBRARY,
    sources=sorted(map(str, Path("native").glob("*.cpp"))),
    depends=sorted(map(str, Path("native").glob("*.h"))),
    language="c++",
    extra_compile_args=["/std:c++17"] if sys.platform == "win32" else FLAGS,
    optional=True,
)
setup(ext_modules=[library], cmdclass={"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel})
