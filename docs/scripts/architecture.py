"""Draws docs/architecture.svg: the rooms of the packages and the arrows between them, from the code's own imports.

A room of `warplens_run` is called `run/…`, one of `warplens_lab` `lab/…`. An arrow points from a room to one that it
imports. Arrows that follow from others (A → C where A → B → C) are omitted, and so are imports for type checking only.
A test compares the committed drawing with what this script makes.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PREFIX = {"warplens": "", "warplens_lab": "lab/", "warplens_run": "run/"}
"""Package → what its rooms are called by, before their own names."""
TARGET = ROOT / "docs" / "architecture.svg"
BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 138, 40, 26, 62, 24
STOP_WIDTH = 22
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where a statement holds others."""
NOT_ROOMS = ("__init__", "__main__")
STYLE = """
  .room { fill: #eef1fb; stroke: #3f51b5; stroke-width: 1.2 }
  .run { fill: #e7f4ea }
  .lab { fill: #fdf1e2 }
  text { font: 13px sans-serif; text-anchor: middle; fill: #1a237e }
  path { fill: none; stroke: #7986cb; stroke-width: 1.1; marker-end: url(#head) }
  #head path { fill: #7986cb; stroke: none }
"""

Rooms = dict[str, set[str]]
"""Room → the rooms that it imports."""


FOUNDATION = {"run/base"}
"""Below all rooms; arrows to it would be in every room and say nothing."""


@lru_cache
def rooms() -> Rooms:
    imports: Rooms = defaultdict(set)
    for file in sorted(SOURCE.rglob("*.py")):
        package, name, *_ = file.relative_to(SOURCE).with_suffix("").parts
        if room := _room_of(package, name):
            imports[room] |= {other for other in _imported_rooms(ast.parse(file.read_text("utf-8"))) if other != room}
    return {room: others & imports.keys() for room, others in imports.items()}


def _room_of(package: str, name: str) -> str:
    return "" if name in NOT_ROOMS else PREFIX[package] + name


def _imported_rooms(tree: ast.Module) -> set[str]:
    modules: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module in PREFIX:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    inner = (module.split(".")[:2] for module in modules if "." in module)
    return {_room_of(package, name) for package, name in inner if package in PREFIX} - {""}


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All but those for type checking only. Expressions, nine nodes of ten, hold no imports and are not walked."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if not _is_type_checking(node):
            yield node
            waiting += [inner for part in BLOCKS for inner in getattr(node, part, ())]


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def reduced(imports: Rooms) -> Rooms:
    """Only the arrows that do not follow from others."""
    below = {room: _reached(imports, room) for room in imports}
    return {
        room: {other for other in others if not any(other in below[between] for between in others - {other})}
        for room, others in imports.items()
    }


def _reached(imports: Rooms, room: str) -> set[str]:
    reached: set[str] = set()
    waiting = set(imports[room])
    while waiting:
        other = waiting.pop()
        reached.add(other)
        waiting |= imports[other] - reached
    return reached


def floors(imports: Rooms) -> list[list[str]]:
    """Rooms by height: each stands above everything that it imports."""
    height: dict[str, int] = {}

    def climb(room: str) -> int:
        if room not in height:
            height[room] = 1 + max((climb(other) for other in imports[room]), default=-1)
        return height[room]

    rows: list[list[str]] = [[] for _ in range(max(map(climb, imports)) + 1)]
    for room in sorted(imports):
        rows[height[room]].append(room)
    return rows


Point = tuple[float, float]
Stop = tuple[str, str]
"""An arrow that passes a floor between its ends: (from, to)."""
Centres = dict[str | tuple[str, str, int], Point]
"""Of each room, and of each arrow that passes a floor: (from, to, floor)."""


def drawing() -> str:
    arrows = reduced({room: others - FOUNDATION for room, others in rooms().items() if room not in FOUNDATION})
    rows = floors(arrows)
    floor_of = {room: floor for floor, row in enumerate(rows) for room in row}
    stops = _stops(arrows, floor_of)
    width = MARGIN * 2 + max(_row_width(row, stops[floor]) for floor, row in enumerate(rows))
    height = MARGIN * 2 + (len(rows) + 1) * (BOX_HEIGHT + GAP_Y) - GAP_Y
    centre = _centres(rows, stops, arrows, width, height)
    lines = [
        _arrow(
            [centre[room], *(centre[room, other, floor] for floor in _between(floor_of, room, other)), centre[other]]
        )
        for room in sorted(arrows)
        for other in sorted(arrows[room])
    ]
    boxes = [_box(room, *centre[room]) for room in sorted(floor_of)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            "<title>The rooms of Warplens and what each imports</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            *lines,
            *boxes,
            _foundation(width, height),
            "</svg>\n",
        ]
    )


def _between(floor_of: dict[str, int], room: str, other: str) -> range:
    """The floors that an arrow passes, from the upper one down."""
    return range(floor_of[room] - 1, floor_of[other], -1)


def _stops(arrows: Rooms, floor_of: dict[str, int]) -> dict[int, list[Stop]]:
    stops: dict[int, list[Stop]] = {floor: [] for floor in floor_of.values()}
    for room in sorted(arrows):
        for other in sorted(arrows[room]):
            for floor in _between(floor_of, room, other):
                stops[floor].append((room, other))
    return stops


def _row_width(row: list[str], stops: list[Stop]) -> float:
    return len(row) * (BOX_WIDTH + GAP_X) + len(stops) * STOP_WIDTH


def _centres(
    rows: list[list[str]], stops: dict[int, list[Stop]], arrows: Rooms, width: float, height: float
) -> Centres:
    """Where each room stands, and where each arrow passes a floor: near the middle of what it leads to."""
    centre: Centres = {}
    for floor, row in enumerate(rows):
        y = height - MARGIN - (floor + 1) * (BOX_HEIGHT + GAP_Y) - BOX_HEIGHT / 2
        wanted = [
            (_mean([_below(centre, room, other, floor) for other in arrows[room]], width / 2), room) for room in row
        ]
        wanted += [(_below(centre, room, other, floor), (room, other, floor)) for room, other in stops[floor]]
        wanted.sort(key=lambda entry: (entry[0], str(entry[1])))
        x = (width - _row_width(row, stops[floor])) / 2
        for _, key in wanted:
            own = BOX_WIDTH + GAP_X if isinstance(key, str) else STOP_WIDTH
            centre[key] = (x + own / 2, y)
            x += own
    return centre


def _below(centre: Centres, room: str, other: str, floor: int) -> float:
    """Where the arrow from a room to another passes the floor below this one, or ends there."""
    return centre.get((room, other, floor - 1), centre[other])[0]


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _arrow(points: list[Point]) -> str:
    half = BOX_HEIGHT / 2
    parts = [f"M{points[0][0]:.0f} {points[0][1] + half:.0f}"]
    for number, ((x1, y1), (x2, y2)) in enumerate(pairwise(points)):
        start, end = y1 + half, y2 - half - (number == len(points) - 2)
        bend = (end - start) / 2
        parts.append(f"C{x1:.0f} {start + bend:.0f} {x2:.0f} {end - bend:.0f} {x2:.0f} {end:.0f}")
        if number < len(points) - 2:
            parts.append(f"V{y2 + half:.0f}")
    return f'<path d="{" ".join(parts)}"/>'


def _foundation(width: float, height: float) -> str:
    top = height - MARGIN - BOX_HEIGHT
    text = f"{', '.join(sorted(FOUNDATION))}: every room may use it"
    across = width - 2 * MARGIN
    return (
        f'<rect class="room run" x="{MARGIN}" y="{top:.0f}" rx="5" width="{across:.0f}" height="{BOX_HEIGHT}"/>'
        f'<text x="{width / 2:.0f}" y="{top + BOX_HEIGHT / 2 + 4.5:.0f}">{text}</text>'
    )


def _box(room: str, x: float, y: float) -> str:
    left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
    kind = f"room {room.partition('/')[0]}" if "/" in room else "room"
    return (
        f'<rect class="{kind}" x="{left:.0f}" y="{top:.0f}" rx="5" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>'
        f'<text x="{x:.0f}" y="{y + 4.5:.0f}">{room}</text>'
    )


if __name__ == "__main__":
    TARGET.write_text(drawing(), "utf-8")
