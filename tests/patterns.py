"""Every regular expression of the packages, and texts that a pattern with more than one way to match would be slow on.

A pattern is slow where two repeats that stand side by side take the same characters, where a repeat holds another, and,
for methods that try every position, where what follows the first repeat is missing from the text.
"""

from __future__ import annotations

import ast
import importlib
import math
import pkgutil
import re
import signal
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import msgspec

import warplens
import warplens_lab
import warplens_run
from warplens.lazy_patterns import LazyPattern

try:  # its name since Python 3.11
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser as sre_parser  # type: ignore[attr-defined]
except ImportError:
    import sre_constants as sre  # type: ignore[no-redef]
    import sre_parse as sre_parser  # type: ignore[no-redef]

METHODS = {"match", "search", "fullmatch", "findall", "finditer", "split", "sub", "subn"}
FLAGS_AT = {"match": 2, "search": 2, "fullmatch": 2, "findall": 2, "finditer": 2, "split": 3, "sub": 4}
# What a name in an f-string stands for that is known only when the function runs: nearly always a name.
LOCAL_NAME = "name"
KNOWS_PATTERNS = re.compile(
    rf"\bre\.|LazyPattern|\b_has\(|\.(?:{'|'.join(sorted(METHODS - {'split'}))})\b|\b[A-Z_]{{2,60}}\.split\("
)
LOOKED_AT = (ast.Call, ast.Attribute, ast.Assign, ast.AnnAssign, ast.ImportFrom, ast.FunctionDef)
HEAD_PATTERNS = "_has"
"""What takes several patterns, which a file's first bytes are searched for."""
TAILS = ("\0", "\n\0")
SHORT_SIZES = (16, 32, 250, 1_000, 2_500)
SHORT_S = 0.25
"""CPU time at which a text of those sizes is no longer worth waiting for."""
SCREENED_S = 0.000_2
LONG_SIZES = (5_000, 10_000)
"""Above every bound of a repeat in the packages: below it a repeat with one grows like one without."""
NOTICED_S = 0.0125
"""Of the longer one: with 20 kB it is at least 50 ms where the time grows with the square."""
LONGEST_S = 0.5


class Used(NamedTuple):
    """A pattern, and how the packages call it: `finditer` stands for all that go on behind a match."""

    where: str
    pattern: str | bytes
    flags: int
    method: str


class Sources(NamedTuple):
    """The modules that know of patterns: their syntax trees, with the nodes looked at here, and what they hold."""

    trees: dict[str, ast.Module]
    nodes: dict[str, list[ast.AST]]
    modules: dict[str, ModuleType]


def sources() -> Sources:
    trees, nodes, modules = {}, {}, {}
    for package in (warplens, warplens_run, warplens_lab):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            spec = found.module_finder.find_spec(found.name, None)  # type: ignore[call-arg]
            assert spec is not None and spec.origin is not None
            if not spec.origin.endswith(".py"):
                continue
            text = Path(spec.origin).read_text("utf-8")
            if not KNOWS_PATTERNS.search(text):
                continue
            trees[found.name] = ast.parse(text)
            nodes[found.name] = [node for node in ast.walk(trees[found.name]) if isinstance(node, LOOKED_AT)]
            try:
                modules[found.name] = importlib.import_module(found.name)
            except ModuleNotFoundError:  # PyTorch and Triton are not installed with Warplens
                modules[found.name] = ModuleType(found.name)
                _constants(trees[found.name], modules[found.name])
    return Sources(trees, nodes, modules)


def _constants(tree: ast.Module, module: ModuleType) -> None:
    """Sets the texts and patterns of a module that cannot be imported here."""
    module.__dict__.update(re=re, LazyPattern=LazyPattern)
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if value is not None and isinstance(target, ast.Name):
            try:
                module.__dict__[target.id] = eval(compile(ast.Expression(value), "", "eval"), module.__dict__)
            except Exception:  # noqa: BLE001 - of anything that is no constant
                continue


def all_patterns(found: Sources) -> tuple[list[Used], list[str]]:
    """The patterns, each as it is used, and the calls whose pattern is a variable."""
    called = _methods_of_names(found)
    patterns: dict[tuple[str | bytes, int, str], str] = {}
    variables = []

    def add(where: str, pattern: Any, flags: int, methods: Iterable[str]) -> None:
        for method in methods if isinstance(pattern, str | bytes) else ():
            one = method if method in ("match", "fullmatch", "search") else "finditer"
            patterns.setdefault((pattern, int(flags) & ~int(re.UNICODE), one), where)

    for name, tree in found.trees.items():
        scope = found.modules[name].__dict__
        for call, target in _calls(found.nodes[name]):
            function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            where = f"{name}:{call.lineno}"
            inner = {**scope, **_class_scope(tree, call, scope)}
            methods = {function} if function in FLAGS_AT else called[name, target] or called[name, ""] or METHODS
            if function == HEAD_PATTERNS:
                for part in call.args:
                    add(where, _value(part, inner), 0, {"search"})
                continue
            pattern = _value(call.args[0], inner)
            if isinstance(pattern, str | bytes):
                add(where, pattern, _flags(call, function, inner), methods)
            else:
                variables.append(where)
    written = {pattern for pattern, _, _ in patterns}
    for name, module in found.modules.items():
        for key, value in module.__dict__.items():
            for compiled in _compiled_in(value) if not key.startswith("__") else ():
                if compiled.pattern not in written:
                    flags = compiled.flags if isinstance(compiled, re.Pattern) else compiled.compiled().flags
                    add(f"{name}.{key}", compiled.pattern, flags, called[name, key] or called[name, ""] or METHODS)
    return [Used(where, *key) for key, where in patterns.items()], variables


def _methods_of_names(found: Sources) -> dict[tuple[str, str], set[str]]:
    """How each name of each module is called: `LINE.match(…)`, or by a function that it is handed to; under no name what
    is called there on anything else."""
    imported = {module: _imports(nodes) for module, nodes in found.nodes.items()}
    functions = {
        (module, node.name): node
        for module, nodes in found.nodes.items()
        for node in nodes
        if isinstance(node, ast.FunctionDef)
    }

    def uses(module: str, inside: Iterable[ast.AST], depth: int = 0) -> Iterator[tuple[str, str]]:
        """Names in a piece of code, each with a method that is called on it."""
        for node in inside:
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                yield _last_name(node.value), node.attr
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and depth < 3:
                key = imported[module].get(node.func.id, (module, node.func.id))
                names = [(at, _last_name(argument)) for at, argument in enumerate(node.args)]
                if key in functions and any(names):
                    parameters = [argument.arg for argument in functions[key].args.args]
                    handed = {parameters[at]: name for at, name in names if name and at < len(parameters)}
                    annotated = {argument.arg for argument in functions[key].args.args if _is_pattern(argument)}
                    if annotated & set(handed):
                        for name, method in uses(key[0], ast.walk(functions[key]), depth + 1):
                            if name in handed:
                                yield handed[name], method

    methods = defaultdict(set)
    for module, nodes in found.nodes.items():
        for name, method in uses(module, nodes):
            if name != "re":
                is_constant = name and name == name.upper()
                methods[imported[module].get(name, (module, name)) if is_constant else (module, "")].add(method)
    return methods


def _imports(nodes: Iterable[ast.AST]) -> dict[str, tuple[str, str]]:
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _is_pattern(argument: ast.arg) -> bool:
    return argument.annotation is not None and "Pattern" in ast.unparse(argument.annotation)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Call, str]]:
    """Calls that take a pattern, and the name that its result is assigned to, if any."""
    targets: dict[int, str] = {}
    for node in nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and node.value is not None:
            targets[id(node.value)] = target.id
        if isinstance(node, ast.Call) and node.args:
            function = node.func
            if isinstance(function, ast.Attribute):
                is_pattern = _last_name(function.value) == "re" and function.attr in ("compile", *FLAGS_AT)
            else:
                is_pattern = isinstance(function, ast.Name) and function.id in ("LazyPattern", HEAD_PATTERNS)
            if is_pattern:
                yield node, targets.get(id(node), "")


def _class_scope(tree: ast.Module, call: ast.Call, scope: dict[str, Any]) -> dict[str, Any]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.lineno <= call.lineno <= (node.end_lineno or 0):
            return dict(vars(scope.get(node.name, object)))
    return {}


def _value(node: ast.expr, scope: dict[str, Any]) -> Any:
    if isinstance(node, ast.JoinedStr):
        parts = [
            part.value if isinstance(part, ast.Constant) else _value(part.value, scope)  # type: ignore[attr-defined]
            for part in node.values
        ]
        return "".join(part if isinstance(part, str) else LOCAL_NAME if part is None else str(part) for part in parts)
    try:
        return eval(compile(ast.Expression(node), "", "eval"), scope)
    except Exception:  # noqa: BLE001 - a name of the function
        return None


def _flags(call: ast.Call, function: str, scope: dict[str, Any]) -> int:
    at = FLAGS_AT.get(function, 1)
    given = [key.value for key in call.keywords if key.arg == "flags"] + call.args[at : at + 1]
    return int(_value(given[0], scope) or 0) if given else 0


def _compiled_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any] | LazyPattern]:
    if isinstance(value, re.Pattern | LazyPattern):
        yield value
    elif depth < 6 and not isinstance(value, type):
        if isinstance(value, dict):
            value = [*value.keys(), *value.values()]
        elif isinstance(value, msgspec.Struct):
            value = [getattr(value, field) for field in value.__struct_fields__]
        elif is_dataclass(value):
            value = [getattr(value, field.name) for field in fields(value)]
        if isinstance(value, list | tuple | set | frozenset):
            for part in value:
                yield from _compiled_in(part, depth + 1)


# Suspects: what a syntax tree shows


class Open(NamedTuple):
    """A repeat that may give characters to one behind it, or the positions that a search tries one after the other."""

    chars: frozenset[str]
    between: tuple[frozenset[str], ...]
    """What must match between it and the place reached, of its own characters."""
    after_edge: frozenset[str] | None
    """What the next character must be, behind an edge of a word."""
    prefix: str
    """A text that reaches it."""


ALL: Final = frozenset([*map(chr, range(128)), "é"])
WORD: Final = frozenset(char for char in ALL if re.match(r"\w", char))
CATEGORIES: Final = {
    getattr(sre, f"CATEGORY_{name}"): frozenset(char for char in ALL if re.match(text, char))
    for name, text in (
        ("DIGIT", r"\d"),
        ("NOT_DIGIT", r"\D"),
        ("SPACE", r"\s"),
        ("NOT_SPACE", r"\S"),
        ("WORD", r"\w"),
        ("NOT_WORD", r"\W"),
    )
}
REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
WIDE: Final = 1_000
"""A repeat that takes more counts as one without bound."""
MOST_OPEN: Final = 200
MOST_PUMPS: Final = 60
FIRST_TRIED: Final = "_1a <"


class Suspects:
    """Texts that a pattern may be slow on, as a start and a part to repeat: where two repeats can take the same
    characters with nothing else between them, or one repeat has characters of its own body behind it.

    A method that tries every position has a repeat of every character before the pattern.
    """

    def __init__(self, used: Used) -> None:
        tree = sre_parser.parse(used.pattern, used.flags & ~int(re.DEBUG))
        self.flags: int = tree.state.flags
        self.written: dict[str, None] = {}
        self.pumps: dict[tuple[str, str], None] = {}
        is_search = used.method not in ("match", "fullmatch")
        self._walk(tree, [Open(ALL, (), None, "")] if is_search else [], "")

    def _walk(self, tree: Any, opens: list[Open], at: str) -> tuple[list[Open], str]:
        """What is open behind the tree, and a short text that it takes."""
        text = ""
        for kind, value in tree:
            name = str(kind)
            if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
                chars = self._chars(kind, value)
                opens = _passed(opens, chars)
                text += _tried(chars)[:1] or "a"
                self.written.update(dict.fromkeys([chr(value)] if name == "LITERAL" else []))
            elif name == "BRANCH":
                ways = [self._walk(branch, opens, at + text) for branch in value[1]]
                opens = _merged(way for way, _ in ways)
                text += min((way for _, way in ways), key=len)
            elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
                opens, inside = self._walk(value[3] if name == "SUBPATTERN" else value, opens, at + text)
                text += inside
            elif name in REPEATS:
                opens, inside = self._repeat(value, opens, at + text)
                text += inside
            elif name in ("ASSERT", "ASSERT_NOT"):
                opens = self._asserted(name, value, opens, at + text)
            elif name == "AT":
                opens = self._at(str(value), opens)
        return opens, text

    def _repeat(self, value: Any, opens: list[Open], at: str) -> tuple[list[Open], str]:
        least, most, inner = value
        behind, one = self._walk(inner, opens, at)
        if most > 1:
            behind = _merged([behind, self._walk(inner, behind, at + one)[0]])
        if most > WIDE:
            chars = self._all_chars(inner)
            for before in opens:
                self._suspect(before, chars)
            if len(one) != 1 or str(inner[0][0]) in ("BRANCH", "SUBPATTERN", *REPEATS):
                for part in self._bodies(inner):
                    self.pumps[at, part] = None
            behind = [*behind, Open(chars, (), None, at)]
        return _merged([opens, behind] if least == 0 else [behind]), one * min(least, 300)

    def _asserted(self, name: str, value: Any, opens: list[Open], at: str) -> list[Open]:
        direction, inner = value
        if direction > 0:
            self._walk(inner, opens, at)
            return opens
        if len(inner) == 1 and str(inner[0][0]) in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            chars = self._chars(*inner[0])
            return _ended(opens, chars if name == "ASSERT" else ALL - chars)
        return opens

    def _at(self, where: str, opens: list[Open]) -> list[Open]:
        if where in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            has_lines = where == "AT_BEGINNING" and self.flags & re.MULTILINE
            return _ended(opens, frozenset("\n")) if has_lines else []
        if where == "AT_BOUNDARY":
            return [
                before._replace(after_edge=ALL - chars)
                for chars in (WORD, ALL - WORD)
                for before in _ended(opens, chars)
            ]
        return opens

    def _suspect(self, before: Open, chars: frozenset[str]) -> None:
        sets = [*(before.between or (before.chars,)), *([before.after_edge] if before.after_edge else [])]
        shared = [_tried(one & chars, self.written) for one in sets]
        if all(shared) and len(self.pumps) < MOST_PUMPS:
            for way in range(min(6, max(map(len, shared)))):
                self.pumps[before.prefix, "".join(tried[min(way, len(tried) - 1)] for tried in shared)] = None

    def _bodies(self, inner: Any) -> Iterator[str]:
        """A text for each way through what repeats."""
        yield self._text(inner)
        for kind, value in inner:
            if str(kind) == "BRANCH":
                for branch in value[1]:
                    yield from self._bodies(branch)
            elif str(kind) == "SUBPATTERN":
                yield from self._bodies(value[3])

    def _text(self, inner: Any) -> str:
        quiet = Suspects.__new__(Suspects)
        quiet.flags, quiet.written, quiet.pumps = self.flags, {}, {}
        return quiet._walk(inner, [], "")[1] or "a"

    def _chars(self, kind: Any, value: Any) -> frozenset[str]:
        if kind is sre.ANY:
            return ALL if self.flags & re.DOTALL else ALL - {"\n"}
        if kind is not sre.IN:
            chars = self._one(kind, value)
        elif value[0][0] is sre.NEGATE:
            chars = ALL.difference(*(self._one(*item) for item in value[1:]))
        else:
            chars = frozenset().union(*(self._one(*item) for item in value))
        return chars

    def _one(self, kind: Any, value: Any) -> frozenset[str]:
        if kind is sre.CATEGORY:
            return CATEGORIES[value]
        first, last = value if kind is sre.RANGE else (value, value)
        chars = {chr(code) for code in range(first, min(last, first + 200) + 1)}
        if self.flags & re.IGNORECASE:
            chars |= {char.swapcase() for char in chars}
        return ALL - chars if kind is sre.NOT_LITERAL else frozenset(chars)

    def _all_chars(self, tree: Any) -> frozenset[str]:
        chars: frozenset[str] = frozenset()
        for kind, value in tree:
            name = str(kind)
            if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
                chars |= self._chars(kind, value)
            elif name == "BRANCH":
                chars = chars.union(*(self._all_chars(branch) for branch in value[1]))
            elif name == "SUBPATTERN":
                chars |= self._all_chars(value[3])
            elif name in REPEATS:
                chars |= self._all_chars(value[2])
            elif name == "ATOMIC_GROUP":
                chars |= self._all_chars(value)
            elif name == "GROUPREF":
                chars = ALL
        return chars


def _passed(opens: list[Open], chars: frozenset[str]) -> list[Open]:
    """What stays open behind a character that must match: what has this character itself."""
    passed = []
    for before in opens:
        shared = before.chars & chars & (before.after_edge or ALL)
        if shared:
            passed.append(before._replace(between=(*before.between, shared), after_edge=None))
    return _merged([passed])


def _ended(opens: list[Open], chars: frozenset[str]) -> list[Open]:
    """What stays open where its last character is one of these."""
    ended = []
    for before in opens:
        last = (before.between[-1] if before.between else before.chars) & chars
        if last:
            ended.append(before._replace(between=(*before.between[:-1], last)))
    return ended


def _merged(ways: Iterable[list[Open]]) -> list[Open]:
    return list(dict.fromkeys(one for way in ways for one in way))[:MOST_OPEN]


def _tried(chars: frozenset[str], written: Iterable[str] = ()) -> str:
    """A few of the characters: common ones, those of the pattern itself, and any other."""
    order = dict.fromkeys(
        [*FIRST_TRIED, *list(written)[:4], *sorted(chars, key=lambda char: (not char.isprintable(), char))]
    )
    return "".join([char for char in order if char in chars][:6])


# Pumping: what a clock shows


def pumped(pump: tuple[str, str], size: int, tail: str) -> str:
    start, part = pump
    return start + part * max(1, (size - len(start)) // len(part)) + tail


def seconds(used: Used, text: str, most: float) -> float:
    """CPU time of one call; infinite above the most."""
    compiled: Any = re.compile(used.pattern, used.flags)
    subject = text.encode("latin-1", "replace") if isinstance(used.pattern, bytes) else text
    signal.signal(signal.SIGVTALRM, _too_long)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, most)
    try:
        found = getattr(compiled, used.method)(subject)
        if used.method == "finditer":
            deque(found, maxlen=0)
    except TimeoutError:
        return math.inf
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - start


def _too_long(*_: object) -> None:
    raise TimeoutError


def slow(used: Used) -> str:
    """The text on which the time grows faster than its length, or nothing."""
    for pump in Suspects(used).pumps:
        for tail in TAILS:
            if _grows(used, pump, tail):
                return f"{pump[0]!r} + {pump[1]!r} * n + {tail!r}"
    return ""


def _grows(used: Used, pump: tuple[str, str], tail: str) -> bool:
    """Whether a short text takes long, or twice a long text far more than twice as long, each time it is measured."""
    for size in SHORT_SIZES:
        if seconds(used, pumped(pump, size, tail), SHORT_S) == math.inf:
            return True
    if seconds(used, pumped(pump, SHORT_SIZES[-1], tail), SHORT_S) < SCREENED_S:
        return False
    for _ in range(2):
        half, whole = (seconds(used, pumped(pump, size, tail), LONGEST_S) for size in LONG_SIZES)
        if whole < NOTICED_S or whole < 2.6 * half < math.inf:
            return False
    return True
