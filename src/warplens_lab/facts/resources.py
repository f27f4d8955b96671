"""Registers, spills, stack and shared memory: from the assembler's log on NVIDIA, from the assembly itself on AMD."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SPILLS = re.compile(r"(?<!\d)(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_REGISTER_BYTES = 4


@dataclass(frozen=True)
class Resources:
    registers: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0


def from_assembler_log(log: str) -> Resources:
    """
    >>> from_assembler_log("8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\\nUsed 255 registers")
    Resources(registers=255, spill_store_bytes=4, spill_load_bytes=12, stack_bytes=8)
    """
    registers, spills = _REGISTERS.findall(log), _SPILLS.findall(log)
    # A kernel that calls functions has a line for each; its own comes last.
    stack, stores, loads = (int(part) for part in spills[-1]) if spills else (0, 0, 0)
    return Resources(max((int(count) for count in registers), default=0), stores, loads, stack)


def from_amdgcn(text: str) -> Resources:
    """Spilled registers are counted there; a register of a thread is four bytes."""

    def number(name: str) -> int:
        match = re.search(rf"^[; \t]*\.?{name}:\s*(\d+)", text, re.MULTILINE)
        return int(match[1]) if match else 0

    spilled = number("vgpr_spill_count") * _REGISTER_BYTES
    registers = number("TotalNumVgprs") or number("vgpr_count")
    return Resources(registers, spilled, spilled, number("private_segment_fixed_size") or number("ScratchSize"))


def shared_bytes(metadata: Mapping[str, Any]) -> int:
    return int(metadata.get("shared") or 0)
