"""The one place where torch, transformers and others are imported, and only when a workload runs."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from typing import Any

from warplens_run.base.errors import WarplensError

INSTALL = "pip install torch 'transformers>=5'"
OLDEST_TORCH = (2, 6)
OLDEST_TRANSFORMERS = 5
"""The first major version whose models all take the same arguments."""


def load_torch(part: str = "") -> Any:
    """torch, or a part of it that it does not import by itself."""
    torch = _load("torch")
    if tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2]) < OLDEST_TORCH:
        needed = ".".join(map(str, OLDEST_TORCH))
        raise WarplensError(
            f"torch {torch.__version__} is too old: a workload needs {needed} or later",
            hint=f"pip install 'torch>={needed}'",
        )
    return importlib.import_module(f"torch.{part}") if part else torch


def load_transformers() -> Any:
    transformers = _load("transformers")
    if int(transformers.__version__.split(".")[0]) < OLDEST_TRANSFORMERS:
        raise WarplensError(f"transformers {transformers.__version__} is too old", hint="pip install 'transformers>=5'")
    # Its advice is for people who write models; what matters here is raised as an error.
    transformers.utils.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    return transformers


def transformers_class(name: str) -> Any:
    """A class of transformers, which imports it, and all that it needs, only when it is asked for."""
    try:
        return getattr(load_transformers(), name)
    except (ImportError, AttributeError, RuntimeError) as error:
        cause = error.__cause__ or error
        hint = INSTALL
        if "torchvision" in str(cause):
            hint = "torchvision is not the build for this torch: reinstall both together, or pip uninstall torchvision"
        raise WarplensError(f"transformers cannot import {name}: {cause}", hint=hint) from error


def load_hub() -> Any:
    """The library of the hub, which comes with transformers."""
    return _load("huggingface_hub")


def load_torchvision() -> Any | None:
    """None where it is absent or was built for another torch: the models of transformers do as well."""
    try:
        importlib.import_module("torchvision.models.resnet")
        return importlib.import_module("torchvision")
    except (ImportError, OSError, RuntimeError):
        return None


def load_bitsandbytes() -> Any:
    # It warns at each product of another type than float16, and of what it could use besides.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    try:
        return importlib.import_module("bitsandbytes")
    except ModuleNotFoundError as error:
        if error.name != "bitsandbytes":
            raise WarplensError(f"bitsandbytes cannot be imported: {error}", hint="reinstall it") from None
        raise WarplensError(
            "load_in_8bit needs bitsandbytes, which is not installed",
            hint="pip install bitsandbytes, or omit it",
            options=("load_in_8bit",),
        ) from None
    except Exception as error:
        raise WarplensError(f"bitsandbytes cannot be imported: {error}", hint="reinstall it") from error


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise WarplensError(f"{name} cannot be imported: {error}", hint=f"reinstall it: {INSTALL}") from None
        raise WarplensError(f"a workload needs {name}", hint=INSTALL) from None
    except (ImportError, OSError) as error:
        raise WarplensError(f"{name} cannot be imported: {error}", hint=f"reinstall it: {INSTALL}") from None
