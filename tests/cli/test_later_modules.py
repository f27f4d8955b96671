"""Modules that Polars and numpy import for what a report never does are loaded where something uses them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from warplens.cli.later_modules import NAMES

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


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_there_when_it_is_used(name: str) -> None:
    own = f"from {name} import __doc__, __file__\nassert __file__ == sys.modules[{name!r}].__file__"
    assert run(f"{USES[name]}\n{own}\nprint(type(sys.modules[{name!r}]).__name__)") == "module\n"
