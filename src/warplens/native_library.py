"""The native library: whether it is there, and its functions.

It is built on install where a compiler is present (`setup.py`, from the sources in `native/`); without it, or with
`WARPLENS_NATIVE=0`, Python reads everything. Imports nothing heavy: `warplens --version` asks it.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path
from typing import Final

VERSION: Final = 7
"""Of the C interface; a library that was built from other sources is not used."""
LIBRARY: Final = Path(__file__).with_name("libwarplens_native.so")
SWITCH: Final = "WARPLENS_NATIVE"
READING, CLOSED, HANDED_OVER = range(3)
"""What `wl_feed` and `wl_finish` return."""


class Category(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("kind", ctypes.c_uint8), ("parts", ctypes.c_uint16))


class Array(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
    )


class SequenceLimits(ctypes.Structure):
    _fields_ = (
        ("lengths", ctypes.c_void_p),
        ("length_count", ctypes.c_size_t),
        ("tried", ctypes.c_size_t),
        ("min_count", ctypes.c_size_t),
        ("max_length", ctypes.c_size_t),
        ("max_found", ctypes.c_size_t),
        ("same", ctypes.c_double),
    )


FUNCTIONS: Final[dict[str, tuple[object, tuple[object, ...]]]] = {
    # name: (result, arguments)
    "wl_version": (ctypes.c_int, ()),
    "wl_parts": (ctypes.c_char_p, ()),
    "wl_fields": (ctypes.c_char_p, ()),
    "wl_new": (
        ctypes.c_void_p,
        (ctypes.POINTER(Category), ctypes.c_size_t, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64),
    ),
    "wl_free": (None, (ctypes.c_void_p,)),
    "wl_feed": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)),
    "wl_finish": (ctypes.c_int, (ctypes.c_void_p,)),
    "wl_get": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Array))),
    "wl_nest": (ctypes.c_int, (*[ctypes.c_void_p] * 3, ctypes.c_size_t, *[ctypes.c_void_p] * 3)),
    "wl_climb": (
        ctypes.c_int,
        (*[ctypes.c_void_p] * 3, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_void_p] * 2),
    ),
    "wl_simulate": (
        ctypes.c_int,
        (*[ctypes.c_void_p] * 2, ctypes.c_size_t, *[ctypes.c_void_p] * 2, ctypes.c_size_t, ctypes.c_void_p),
    ),
    "wl_without_numbers": (ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p)),
    "wl_sequences_new": (
        ctypes.c_void_p,
        (*[ctypes.c_void_p] * 2, ctypes.c_size_t, ctypes.POINTER(SequenceLimits)),
    ),
    "wl_sequences_free": (None, (ctypes.c_void_p,)),
    "wl_sequences_get": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Array))),
    "wl_why": (ctypes.c_char_p, (ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))),
}


def library() -> ctypes.CDLL | None:
    """The library, or None where Python has to read."""
    return None if os.environ.get(SWITCH) == "0" else _loaded(LIBRARY)


@lru_cache
def _loaded(path: Path) -> ctypes.CDLL | None:
    if not path.exists():
        return None
    try:
        loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):  # for another machine, or of another release
        return None
    return loaded if loaded.wl_version() == VERSION else None


def reader_name() -> str:
    """Which reader takes a PyTorch trace, for `--version`."""
    return "Python reader" if library() is None else "native reader"
