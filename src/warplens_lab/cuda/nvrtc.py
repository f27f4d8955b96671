"""NVRTC through ctypes: source in, PTX and cubin out. Only the child process loads it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

COMPILATION_FAILED = 6


@dataclass(frozen=True)
class NvrtcResult:
    """What one compilation left; `log` has the errors, and the assembler's report."""

    log: str
    is_compiled: bool = False
    ptx: str = ""
    cubin: bytes = b""
    names: Mapping[str, str] = field(default_factory=dict)
    """Name of the compiled function by the name that was asked for."""


class NvrtcError(Exception):
    """NVRTC itself failed, not the program."""


class Nvrtc:
    def __init__(self, path: str) -> None:
        # Older ones look for their other half only where the system's own libraries are.
        for half in Path(path).parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(half), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    @property
    def has_headers(self) -> bool:
        """Whether it brings CUDA's headers, as newer ones of CUDA 13 do."""
        return hasattr(self._library, "nvrtcInstallBundledHeaders")

    def compile(
        self, text: str, file: str, options: Sequence[str], names: Sequence[str], headers: Mapping[str, str]
    ) -> NvrtcResult:
        """`names` are kernels as C++ names them, `f<float, 256>` too; `headers` are texts that `#include` finds."""
        program = ctypes.c_void_p()
        contents, listed = _strings(list(headers.values())), _strings(list(headers))
        self._call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), file.encode(), len(headers),
                   contents, listed)  # fmt: skip
        try:
            for name in names:
                self._call("nvrtcAddNameExpression", program, name.encode())
            status = self._library.nvrtcCompileProgram(program, len(options), _strings(options))
            log = self._bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status == COMPILATION_FAILED:
                return NvrtcResult(log)
            self._check("nvrtcCompileProgram", status, log)
            return NvrtcResult(
                log,
                True,
                self._bytes(program, "PTX").rstrip(b"\0").decode(),
                self._bytes(program, "CUBIN"),
                {name: self._lowered(program, name) for name in names},
            )
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, program: ctypes.c_void_p, kind: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value or 1)
        self._call(f"nvrtcGet{kind}", program, buffer)
        return buffer.raw[: size.value]

    def _lowered(self, program: ctypes.c_void_p, name: str) -> str:
        lowered = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, name.encode(), ctypes.byref(lowered))
        return (lowered.value or b"").decode()

    def _call(self, function: str, *arguments: object) -> None:
        self._check(function, getattr(self._library, function)(*arguments))

    def _check(self, function: str, status: int, log: str = "") -> None:
        if status:
            reason = self._library.nvrtcGetErrorString(status).decode()
            raise NvrtcError(f"{function}: {reason}{f': {log.strip()}' if log.strip() else ''}")


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))
