"""Which Triton is installed, without importing it, and whether it is one that the lab can work with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from warplens_run.base.errors import MissingExtra, UsageError

PACKAGES: Final = ("triton", "triton-rocm", "pytorch-triton", "pytorch-triton-rocm")
PROJECTS: Final = {"yaml": "pyyaml", "sklearn": "scikit-learn", "PIL": "pillow", "cv2": "opencv-python"}
"""Packages that are installed by another name than they are imported."""
FORKED: Final = ("num_consumer_groups", "num_buffers_warp_spec", "reg_dec_producer", "reg_inc_consumer")
"""Arguments of `triton.Config` for warp specialisation that Triton 3.3 and forks of it take."""
OLDEST: Final = (3, 6)
"""Newer ones are not refused: what they lack is probed for, and said where it is needed."""


def require_triton(purpose: str = "compiling a kernel") -> str:
    """The version of the installed Triton; one clear error where there is none or it is too old."""
    for package in PACKAGES:
        try:
            installed = version(package)
        except PackageNotFoundError:
            continue
        refuse_old(installed, purpose)
        return installed
    raise MissingExtra("Triton", "triton", purpose)


def refuse_old(installed: str, purpose: str) -> None:
    """
    >>> refuse_old("3.6.0+git2f", "tracing"), refuse_old("4.0", "tracing"), refuse_old("a fork", "tracing")
    (None, None, None)
    >>> refuse_old("3.5.1", "tracing a kernel")
    Traceback (most recent call last):
    ...
    warplens_run.base.errors.UsageError: tracing a kernel needs Triton 3.6 or newer; 3.5.1 is installed
    """
    match = re.match(r"(\d+)\.(\d+)", installed)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UsageError(
            f"{purpose} needs Triton {oldest} or newer; {installed} is installed",
            hint=f"pip install --upgrade 'triton>={oldest}'",
        )


def failure_hint(message: str) -> str | None:
    """What to do about the message of a user's file that could not be run.

    >>> failure_hint("No module named 'torch'"), failure_hint("No module named 'sklearn.svm'"), failure_hint("no")
    ("pip install 'warplens[triton]'", 'pip install scikit-learn', None)
    """
    forked = next((name for name in FORKED if re.search(rf"\b{name}\b", message)), "")
    if not forked and "Config.__init__() takes" in message:
        # They were given by position, and Triton's error has no names.
        forked = " or ".join(FORKED[:2])
    if forked:
        return (
            f"this Triton has no {forked}: ask for warp specialisation at the loop, `for k in tl.range(0, n, "
            "warp_specialize=True)`; the compiler forms the groups of warps, num_stages sets the buffers"
        )
    name = missing_package(message)
    if not name:
        return None
    return "pip install 'warplens[triton]'" if name in ("triton", "torch") else f"pip install {_project(name)}"


def missing_package(message: str) -> str:
    """The package that an import did not find; empty for any other message.

    >>> missing_package("No module named 'einops.layers'"), missing_package("no such file")
    ('einops', '')
    """
    match = re.match(r"No module named '([\w.]+)'", message)
    return match[1].partition(".")[0] if match else ""


def _project(name: str) -> str:
    """By which name it is installed."""
    return PROJECTS.get(name, name.replace("_", "-"))
