"""C++ kernel names made readable: pydemumble where installed, else the C++ runtime's own demangler."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

# A real mangled kernel name is at most a few thousand characters; beyond this only garbage was ever seen,
# and the C++ runtime's demangler takes exponential time and memory on hostile input.
MAX_MANGLED_CHARS = 16_384

_MANGLED = re.compile(r"_{1,3}Z[A-Z0-9]")
_RUNTIME_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.dylib", "libc++.1.dylib")
# Types that C++ runtimes before GCC 13 cannot read, each with one that they can and that no GPU kernel has.
_NEW_TYPES = (("DF16b", "g", "__float128", "std::bfloat16_t"), ("DF16_", "e", "long double", "_Float16"))
_IDENTIFIER_LENGTH = re.compile(r"\d{1,4}")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def is_mangled(name: str) -> bool:
    """Whether the name starts as an Itanium-mangled symbol does (`_ZN…`, `_Z13…`)."""
    return _MANGLED.match(name) is not None


def demangle(name: str) -> str:
    """The readable form of an Itanium-mangled name; any other name unchanged."""
    if not is_mangled(name) or len(name) > MAX_MANGLED_CHARS:
        return name
    symbol = name.removesuffix(".kd")
    return _demangler()(symbol) or name


def mangled_function(name: str) -> str:
    """The qualified function name inside a mangled symbol, also where a cut-off name no longer demangles."""
    position = name.index("Z") + 1
    parts: list[str] = []
    while position < len(name):
        length = _IDENTIFIER_LENGTH.match(name, position)
        if length:
            end = length.end() + int(length.group())
            parts.append(name[length.end() : end])
            position = end
        elif not parts and name[position] in "NKVrSt":
            position += 1
        else:
            break
    return "::".join(part for part in parts if _IDENTIFIER.fullmatch(part) and "_GLOBAL__N_" not in part)


def mangled_arguments(name: str) -> str:
    """The identifiers after the function's own, as a template list: what of it a rule can use undemangled."""
    identifiers: list[str] = []
    position = 0
    while (length := _IDENTIFIER_LENGTH.search(name, position)) is not None:
        end = length.end() + int(length.group())
        part = name[length.end() : end]
        # A number that is not a length (a template value) is followed by something else than that many letters.
        is_identifier = len(part) > 2 and end <= len(name) and _IDENTIFIER.fullmatch(part) is not None
        if is_identifier:
            identifiers.append(part)
        position = end if is_identifier else length.end()
    return f"<{', '.join(dict.fromkeys(identifiers))}>"


@lru_cache(maxsize=1)
def _demangler() -> Callable[[str], str]:
    try:
        from pydemumble import demangle as pydemumble_demangle
    except ImportError:
        return _runtime_demangler() or (lambda _symbol: "")

    def with_pydemumble(symbol: str) -> str:
        return str(pydemumble_demangle(symbol))

    return with_pydemumble


def _runtime_demangler() -> Callable[[str], str] | None:
    import ctypes

    for library in _RUNTIME_LIBRARIES:
        try:
            loaded = ctypes.CDLL(library)
            demangle_c, free = loaded.__cxa_demangle, ctypes.CDLL(None).free
        except (OSError, AttributeError):
            continue
        demangle_c.restype = ctypes.c_void_p
        demangle_c.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        free.argtypes = [ctypes.c_void_p]
        free.restype = None
        return _call_runtime(demangle_c, free)
    return None


def _call_runtime(demangle_c: Callable[..., int | None], free: Callable[[int], None]) -> Callable[[str], str]:
    import ctypes

    def with_runtime(symbol: str) -> str:
        status = ctypes.c_int()
        # A NUL inside the name would end it early for C: the answer would be of another symbol.
        if "\0" in symbol or not symbol.isascii():
            return ""
        stand_ins = [new_type for new_type in _NEW_TYPES if new_type[0] in symbol]
        for code, stand_in, _, _ in stand_ins:
            symbol = symbol.replace(code, stand_in)
        address = demangle_c(symbol.encode("ascii"), None, None, ctypes.byref(status))
        if not address:
            return ""
        try:
            text = ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            free(address)
        for _, _, stand_in_name, name in stand_ins:
            text = text.replace(stand_in_name, name)
        return text

    return with_runtime
