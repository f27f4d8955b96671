"""Machine code with line information: NVIDIA's disassembly and PTX, and AMD's assembly, as one list of instructions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from warplens_lab.facts.locations import Frames, users_place
from warplens_lab.facts.records import SourcePlace


@dataclass(frozen=True)
class Instruction:
    name: str
    text: str
    frames: Frames
    in_loop: bool = False
    label: str = ""
    """The label that it jumps to."""
    is_end: bool = False
    """The kernel ends here, whatever happened before."""
    position: int = 0
    """Its line in the text, from 0."""

    @property
    def place(self) -> SourcePlace | None:
        return users_place(self.frames)


_SASS_LINE = re.compile(r'//## File "([^"]*)", line (\d+)( inlined at "[^"]*", line \d+)?')
_SASS_CODE = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?P<when>@!?U?P\w+\s+)?(?P<name>[A-Z][\w.]*)(?P<rest>.*)")
_SASS_JUMP = re.compile(r"`\((\.L\w+)\)")
_LABEL = re.compile(r"^\s*([.$\w]+):")


def read_sass(text: str) -> list[Instruction]:
    """The output of `nvdisasm -gi`: the lines of an inlined call follow each other, innermost first."""
    items: list[Instruction | str] = []
    frames: Frames = ()
    chain_is_open = False
    for position, line in enumerate(text.splitlines()):
        if match := _SASS_LINE.search(line):
            place = SourcePlace(match[1], int(match[2]))
            frames = (*frames, place) if chain_is_open else (place,)
            chain_is_open = match[3] is not None
        elif match := _SASS_CODE.match(line):
            chain_is_open = False
            jump = _SASS_JUMP.search(match["rest"])
            name, label = match["name"], jump[1] if jump else ""
            ends = _ends(match)
            operands = match["rest"].rstrip().removesuffix(";").strip()
            items.append(Instruction(name, operands, frames, False, label, ends, position))
        elif match := _LABEL.match(line):
            items.append(match[1])
    return _with_loops(_without_padding(items))


def _ends(match: re.Match[str]) -> bool:
    return match["name"] == "EXIT" and match["when"] is None


def _without_padding(items: list[Instruction | str]) -> list[Instruction | str]:
    """After the last EXIT come a jump to itself and NOPs that never run."""
    code = list(items)
    while code and (isinstance(code[-1], str) or code[-1].name == "NOP"):
        code.pop()
    last = code[-1] if code else None
    if isinstance(last, Instruction) and last.name == "BRA" and len(code) > 1 and code[-2] == last.label:
        code = code[:-2]
    return code


_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_PTX_CODE = re.compile(r"^\s+(?:@!?%?\w+\s+)?([a-z][\w.:]*)(.*)")


def read_ptx(text: str) -> list[Instruction]:
    """PTX keeps columns, which the disassembly lacks. Loops are not marked."""
    return [item for item in _assembly(text, _PTX_CODE) if isinstance(item, Instruction)]


_AMD_CODE = re.compile(r"^\s+((?:v|s|ds|global|buffer|flat|scratch)_\w+)(.*)")
_AMD_JUMP = re.compile(r"^\s*(\.L\w+)")
_AMD_BLOCK = re.compile(r"^(?:\.LBB\w+:|; %bb\.\d+:)", re.MULTILINE)
_AMD_LOOP = re.compile(r"^[^;]*;.*(?:in Loop:|Loop Header|Parent Loop)")


def read_amdgcn(text: str) -> list[Instruction]:
    items = list(_assembly(text, _AMD_CODE))
    jumps = ("s_cbranch", "s_branch")
    marked = [
        replace(item, label=match[1])
        if isinstance(item, Instruction) and item.name.startswith(jumps) and (match := _AMD_JUMP.match(item.text))
        else item
        for item in items
    ]
    end = next(
        (at for at in range(len(marked), 0, -1) if getattr(marked[at - 1], "name", "") == "s_endpgm"), len(marked)
    )
    code = _with_loops(marked[:end])
    if _AMD_BLOCK.search(text) is None:
        return code
    inside = _lines_in_loops(text.splitlines())
    return [replace(instruction, in_loop=instruction.position in inside) for instruction in code]


def _lines_in_loops(lines: Sequence[str]) -> set[int]:
    """LLVM's comments say of every block whether it is in a loop, in the block's first lines.

    Jumps do not: rarely run blocks come after the rest and jump back without being in a loop.
    """
    positions: set[int] = set()
    in_loop, at_head = False, False
    for position, line in enumerate(lines):
        begins = _AMD_BLOCK.match(line) is not None
        at_head = begins or (at_head and line.lstrip().startswith(";"))
        in_loop = (in_loop and not begins) or (at_head and _AMD_LOOP.search(line) is not None)
        if in_loop:
            positions.add(position)
    return positions


def _assembly(text: str, code: re.Pattern[str]) -> Iterator[Instruction | str]:
    lines = text.splitlines()
    files = _files(lines)
    frames: Frames = ()
    callers: dict[SourcePlace, Frames] = {}
    for position, line in enumerate(lines):
        if match := _LOC.match(line):
            frames = _frames(match, files, callers, line)
        elif match := code.match(line):
            name, rest = match[1], match[2].strip()
            # AMD's loads into shared memory differ from the others in their last operand only.
            name += "_lds" if name.startswith("buffer_load") and rest.split()[-1:] == ["lds"] else ""
            yield Instruction(name, rest, frames, is_end=name == "s_endpgm", position=position)
        elif match := _LABEL.match(line):
            yield match[1]


def _files(lines: Iterable[str]) -> Mapping[str, str]:
    matches = (_PTX_FILE.match(line) for line in lines if ".file" in line)
    return {m[1]: f"{m[2].rstrip('/')}/{m[3]}" if m[3] else m[2] for m in matches if m}


_AMD_CALLER = re.compile(r"(?<!\S)(\S+?):(\d+):(\d+)")


def _frames(match: re.Match[str], files: Mapping[str, str], callers: dict[SourcePlace, Frames], line: str) -> Frames:
    place = SourcePlace(files.get(match[1], ""), int(match[2]), int(match[3]))
    outer: Frames = ()
    if match[4]:
        caller = SourcePlace(files.get(match[4], ""), int(match[5]), int(match[6]))
        outer = (caller, *callers.get(caller, ()))
    elif "@[" in line:
        # AMD's comments give bare names: `standard.py:196:12 @[ standard.py:216:16 @[ k.py:5:3 ] ]`.
        names = {path.rpartition("/")[2]: path for path in files.values()}
        outer_calls = _AMD_CALLER.findall(line.partition("@[")[2])
        outer = tuple(SourcePlace(names.get(name, name), int(at), int(column)) for name, at, column in outer_calls)
    if outer:
        callers[place] = outer
    return (place, *outer)


def _with_loops(items: list[Instruction | str]) -> list[Instruction]:
    """Marks what is between a label and a later jump back to it.

    After the kernel's end come rare paths, such as long waits, which jump back into the code: those are not loops.
    """
    at_label: dict[str, int] = {}
    last_end = -1
    code: list[Instruction] = []
    inside: set[int] = set()
    for item in items:
        if isinstance(item, str):
            at_label[item] = len(code)
            continue
        if at_label.get(item.label, -1) > last_end:
            inside.update(range(at_label[item.label], len(code) + 1))
        if item.is_end:
            last_end = len(code)
        code.append(item)
    return [replace(item, in_loop=at in inside) for at, item in enumerate(code)]
