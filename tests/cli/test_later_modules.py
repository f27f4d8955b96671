"""Modules that Polars and numpy import for what a report never does are loaded where something uses them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import SAMPLES
from warplens.cli.later_modules import NAMES, READERS

USES = {
    "importlib.metadata": "import importlib.metadata\nassert importlib.metadata.version('polars')",
    "subprocess": "import subprocess\nassert subprocess.run(['true']).returncode == 0",
    "pickle": "import pickle\nassert pickle.loads(pickle.dumps([1])) == [1]\nclass Own(pickle.Pickler): pass",
}


def run(code: str) -> str:
    begin = "from warplens.cli.later_modules import load_later\nload_later()\nimport sys, numpy, polars\n"
    done = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, check=True)
    return done.stdout


def test_polars_and_numpy_do_not_load_them() -> None:
    # The first module that each of them imports itself, and nothing else here does.
    assert run("print([name for name in ('email', 'selectors', '_compat_pickle') if name in sys.modules])") == "[]\n"


def test_a_report_loads_nothing_for_archives_and_folders_that_it_does_not_meet(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from warplens.__main__ import main\n"
        "heavy, leave = ('shutil', 'zipfile', 'bz2', 'lzma', 'tarfile', 'tempfile', 'email'), os._exit\n"
        "os._exit = lambda code: (print(code, [name for name in heavy if name in sys.modules], file=sys.stderr), leave(code))\n"
        f"sys.argv[1:] = ['report', {str(SAMPLES[0])!r}, '-o', {str(tmp_path / 'tables')!r} + '/']\n"
        "main()"
    )
    environment = {**os.environ, "WARPLENS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.splitlines()[-1] == "0 []"
    assert list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_there_when_it_is_used(name: str) -> None:
    own = f"from {name} import __doc__, __file__\nassert __file__ == sys.modules[{name!r}].__file__"
    assert run(f"{USES[name]}\n{own}\nprint(type(sys.modules[{name!r}]).__name__)") == "module\n"


READER_USES = (
    "from polars.io.iceberg._utils import with_table_nullability as it",
    "it = pl.scan_delta('/nowhere/x')",
    "it = pl.scan_lance(1)",
    "it = pl.read_excel('/nowhere/x.xlsx')",
    "it = pl.read_database('select 1', connection=None)",
    "it = pl.Catalog('https://nowhere.invalid', bearer_token=None)",
)


def test_readers_that_a_report_does_not_use_are_loaded_where_they_are_used_and_answer_as_polars_does() -> None:
    tries = [
        f"try:\n    {use}\n    print(type(it))\nexcept Exception as error:\n    print(repr(error)[:80])\n"
        for use in READER_USES
    ]
    uses = "import polars as pl\n" + "".join(tries)
    inner = f"[name for name in sys.modules if name.startswith({tuple(f'{package}.' for package in READERS)})]"
    plain = subprocess.run([sys.executable, "-c", uses], capture_output=True, text=True, check=True)
    assert len(plain.stdout.splitlines()) == len(READER_USES)
    assert run(f"print({inner}, callable(polars.scan_iceberg))\n{uses}") == f"[] True\n{plain.stdout}"


def test_pools_of_threads_are_made_where_something_runs_in_them() -> None:
    printed = run(
        "print('logging' in sys.modules)\n"
        "batches = polars.LazyFrame({'row': range(100)}).collect_batches(chunk_size=10)\n"
        "print(sum(map(len, batches)))\n"
        "from polars.lazyframe import frame\n"
        "print([frame._COLLECT_BATCHES_POOL.submit(abs, -number).result() for number in range(3)])\n"
        "from concurrent.futures import ThreadPoolExecutor, Future\n"
        "with ThreadPoolExecutor(2) as pool:\n"
        "    print(list(pool.map(abs, [-1, 2])), isinstance(pool.submit(abs, 1), Future))\n"
    )
    assert printed.splitlines() == ["False", "100", "[0, 1, 2]", "[1, 2] True"]


def test_functions_of_polars_have_the_signatures_that_it_gives_them() -> None:
    ask = (
        "import inspect, polars\n"
        "for kind in (polars.DataFrame, polars.Expr):\n"
        "    for name, each in vars(kind).items():\n"
        "        if inspect.isfunction(each): print(name, inspect.signature(each))\n"
    )
    plain = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert "sort (self, by: " in plain.stdout
    assert run(ask) == plain.stdout


MASKS = """
from warplens.cli.later_modules import numpy_parts_later
numpy_parts_later()
import numpy as np, polars as pl
series = pl.Series(np.array([3.0, np.nan, 3.0]))
assert series.to_list()[0] == 3.0 and pl.Series(np.arange(4)[::2]).to_list() == [0, 2]
assert np.unique([2, 1, 2]).tolist() == [1, 2] and np.median([1, 2]) == 1.5 and np.isnan(np.median(series.to_numpy()))
"""


def test_arrays_without_masks_do_not_load_what_is_for_masks() -> None:
    assert run(MASKS + "print('numpy.ma.core' in sys.modules)") == "False\n"


@pytest.mark.parametrize(
    "way", ["from numpy import ma", "import numpy.ma as ma", "import numpy.ma.core; ma = numpy.ma"]
)
def test_a_masked_array_is_one_for_polars_and_numpy(way: str) -> None:
    used = f"{way}\nmasked = ma.MaskedArray([1, 2, 2], mask=[True, False, False])\n"
    seen = (
        "print(pl.Series(masked).to_list(), np.ma.is_masked(masked), np.unique(masked).tolist(), type(np.ma).__name__)"
    )
    assert run(MASKS + used + seen) == "[None, 2, 2] True [2, None] module\n"


def test_texts_and_types_of_numpy_are_loaded_where_they_are_used() -> None:
    types = "[name for name in sys.modules if name.startswith('numpy._typing.')]"
    assert run(f"print({types}, numpy.linalg.eigh(numpy.eye(2)).eigenvalues)") == "[] [1. 1.]\n"
    use = "from numpy.typing import ArrayLike, NDArray; print(NDArray[numpy.int8])"
    plain = subprocess.run([sys.executable, "-c", f"import numpy; {use}"], capture_output=True, text=True, check=True)
    later = (
        "from warplens.cli.later_modules import numpy_parts_later; numpy_parts_later()\nimport numpy.typing as npt\n"
    )
    alias = "print(npt.NDArray[numpy.int8] | None)\n"
    assert run(f"{later}{alias}print({types})") == "list[numpy.int8] | None\n[]\n"
    assert run(use) == plain.stdout
    assert run(later + use) == plain.stdout
