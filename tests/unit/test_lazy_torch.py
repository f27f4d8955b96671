"""A PyTorch that waits until it is used: what a kernel's file does with it works, and costs nothing until then."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import HANG_SECONDS

pytest.importorskip("torch")

BEGIN = """
import sys
from types import ModuleType
from warplens_lab.compiling.lazy_torch import import_when_used
loaded = []
import_when_used(lambda torch: loaded.append(torch.__version__))
"""


@pytest.mark.parametrize(("code", "is_loaded"), [
    ("import torch\nimport torch, inspect\ninspect.getmodule(inspect.currentframe())", False),
    ("import torch.nn.functional as F\nassert F.relu", True),
    ("import torch\ndef launch(x: torch.Tensor): assert not hasattr(torch, 'no_such')\nlaunch(torch.ones(2))", True),
])  # fmt: skip
def test_it_is_loaded_by_its_first_use(code: str, is_loaded: bool) -> None:
    check = f"assert len(loaded) == {int(is_loaded)}, loaded\nassert (type(sys.modules['torch']) is ModuleType) == {is_loaded}"
    subprocess.run([sys.executable, "-c", f"{BEGIN}\n{code}\n{check}"], check=True, timeout=HANG_SECONDS)


@pytest.mark.nightly
def test_a_pytorch_that_is_loaded_is_taken_as_it_is() -> None:
    code = "import torch\n" + BEGIN + "assert loaded == [torch.__version__]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG_SECONDS)


def test_one_that_fails_to_load_fails_as_an_import_does() -> None:
    code = (
        BEGIN
        + """
import importlib.abc, importlib.machinery
sys.modules.pop("torch")
class Broken(importlib.abc.Loader, importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name == "torch" else None
    def exec_module(self, module):
        raise ImportError("libcudart.so is missing")
sys.meta_path.insert(0, Broken())
import_when_used(loaded.append)
import torch
for _ in range(2):
    try:
        torch.ones
    except (ImportError, AttributeError) as error:
        print(type(error).__name__, error)
assert "torch" not in sys.modules and loaded == []
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=HANG_SECONDS, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[0] == "ImportError libcudart.so is missing"
    assert done.stdout.splitlines()[1].startswith("AttributeError")
