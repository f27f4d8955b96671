"""Every regular expression of the packages, and texts that a pattern with more than one way to match would be slow on.

A pattern is slow where two repeats that stand side by side take the same characters, where a repeat holds another, and,
for methods that try every position, where what follows the first repeat is missing from the text.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import signal
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

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
HEAD_PATTERNS = "_has"
"""What takes several patterns, which a file's first bytes are searched for."""
LONGEST_S = 0.5
SCREENED_S = 0.0015


class Used(NamedTuple):
    """A pattern, and how the packages call it: `finditer` stands for all that go on behind a match."""

    where: str
    pattern: str | bytes
    flags: int
    method: str


class Sources(NamedTuple):
    """The syntax trees of all modules, and what they hold once imported."""

    trees: dict[str, ast.Module]
    modules: dict[str, ModuleType]


def sources() -> Sources:
    trees, modules = {}, {}
    for package in (warplens, warplens_run, warplens_lab):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            spec = found.module_finder.find_spec(found.name, None)  # type: ignore[call-arg]
            assert spec is not None and spec.origin is not None
            if not spec.origin.endswith(".py"):
                continue
            trees[found.name] = ast.parse(Path(spec.origin).read_text("utf-8"))
            try:
                modules[found.name] = importlib.import_module(found.name)
            except ModuleNotFoundError:  # PyTorch and Triton are not installed with Warplens
                modules[found.name] = ModuleType(found.name)
                _constants(trees[found.name], modules[found.name])
    return Sources(trees, modules)


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
        for method in methods:
            one = method if method in ("match", "fullmatch", "search") else "finditer"
            patterns.setdefault((pattern, int(flags) & ~int(re.UNICODE), one), where)

    for name, tree in found.trees.items():
        scope = found.modules[name].__dict__
        for call, target in _calls(tree):
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
    imported = {module: _imports(module, tree) for module, tree in found.trees.items()}
    functions = {
        (module, node.name): node
        for module, tree in found.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }

    def uses(module: str, inside: ast.AST, depth: int = 0) -> Iterator[tuple[str, str]]:
        """Names in a piece of code, each with a method that is called on it."""
        for node in ast.walk(inside):
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
                        for name, method in uses(key[0], functions[key], depth + 1):
                            if name in handed:
                                yield handed[name], method

    methods = defaultdict(set)
    for module, tree in found.trees.items():
        for name, method in uses(module, tree):
            if name != "re":
                is_constant = name and name == name.upper()
                methods[imported[module].get(name, (module, name)) if is_constant else (module, "")].add(method)
    return methods


def _imports(module: str, tree: ast.Module) -> dict[str, tuple[str, str]]:
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _is_pattern(argument: ast.arg) -> bool:
    return argument.annotation is not None and "Pattern" in ast.unparse(argument.annotation)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Calls that take a pattern, and the name that its result is assigned to, if any."""
    targets: dict[int, str] = {}
    for node in ast.walk(tree):
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


# Pumping


def char_of(items: Any) -> list[str]:
    """Characters that a set takes."""
    if items[0][0] is sre.NEGATE:
        return [char for char in 'a1_ <(:,"\n#' if not _in_set(char, items[1:])][:4]
    return [char for char in _members(items) if char][:5]


def _members(items: Any) -> Iterator[str]:
    for kind, value in items:
        if kind is sre.LITERAL:
            yield chr(value)
        elif kind is sre.RANGE:
            yield chr(value[0])
        elif kind is sre.CATEGORY:
            yield from _CATEGORIES[value]


_CATEGORIES = {
    sre.CATEGORY_DIGIT: "1",
    sre.CATEGORY_WORD: "a_1",
    sre.CATEGORY_SPACE: " \n",
    sre.CATEGORY_NOT_DIGIT: "a ",
    sre.CATEGORY_NOT_WORD: "<: ",
    sre.CATEGORY_NOT_SPACE: "a<1",
}


def _in_set(char: str, items: Any) -> bool:
    for kind, value in items:
        if kind is sre.LITERAL and ord(char) == value:
            return True
        if kind is sre.RANGE and value[0] <= ord(char) <= value[1]:
            return True
        if kind is sre.CATEGORY:
            return bool(re.match(_CATEGORY_TEXT[value], char))
    return False


_CATEGORY_TEXT = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_NOT_WORD: r"\W",
    sre.CATEGORY_NOT_SPACE: r"\S",
}


class Shapes:
    """What a pattern is made of: its characters, and a text that reaches each of its repeats, with what repeats there."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.flags = flags & ~int(re.DEBUG)
        self.chars: dict[str, None] = {}
        self.chunks: dict[str, None] = {}
        self.repeats: dict[tuple[str, str], None] = {}
        self.has_no_bound = False
        tree = sre_parser.parse(pattern, self.flags)
        self.whole = self._walk(tree, "")

    def _walk(self, tree: Any, before: str) -> str:
        """A short text that the tree takes; notes on the way what repeats, and after which text."""
        text = ""
        for kind, value in tree:
            at = before + text
            if kind is sre.LITERAL:
                self.chars[chr(value)] = None
                text += chr(value)
            elif kind is sre.NOT_LITERAL:
                text += "a" if value != ord("a") else "b"
            elif kind is sre.ANY:
                text += "a"
            elif kind is sre.IN:
                chars = char_of(value)
                self.chars.update(dict.fromkeys(chars))
                text += chars[0] if chars else "a"
            elif kind is sre.BRANCH:
                texts = [self._walk(branch, at) for branch in value[1]]
                self.chunks.update(dict.fromkeys(texts))
                text += texts[0]
            elif kind is sre.SUBPATTERN:
                text += self._walk(value[3], at)
            elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT) or str(kind) == "POSSESSIVE_REPEAT":
                least, most, inner = value
                one = self._walk(inner, at)
                self.has_no_bound |= most is sre.MAXREPEAT
                if most is sre.MAXREPEAT or most > 1:
                    self.repeats[at, one] = None
                    for char in self._first_chars(inner):
                        self.repeats[at, char] = None
                text += one * max(1, min(least, 8))
            elif kind in (sre.ASSERT, sre.ASSERT_NOT):
                ahead = self._walk(value[1], at)
                self.chunks[ahead] = None
            elif str(kind) == "ATOMIC_GROUP":
                text += self._walk(value, at)
        self.chunks[text] = None
        return text

    def _first_chars(self, inner: Any) -> list[str]:
        for kind, value in inner:
            if kind is sre.IN:
                return char_of(value)
            if kind is sre.ANY:
                return ["a", " ", *list(self.chars)[:4]]
        return []

    def pumps(self) -> list[tuple[str, str]]:
        """Texts as a start and a part to repeat: single characters, pairs, pieces, and each repeat where it stands."""
        chars = list(dict.fromkeys([" ", "_", "1", "a", *list(self.chars)[:12]]))
        pumps = [("", char) for char in chars]
        pumps += [("", one + other) for one in chars[:4] for other in chars[:8] if one != other]
        pumps += [("", chunk) for chunk in list(self.chunks)[:10] if chunk]
        for start, part in list(self.repeats)[:40]:
            pumps += [(start, part), ("", start + part)]
            if start:
                pumps.append(("", start))
        return [pump for pump in dict.fromkeys(pumps) if pump[1]]


def pumped(pump: tuple[str, str], size: int, tail: str) -> str:
    start, part = pump
    return start + part * max(1, (size - len(start)) // len(part)) + tail


def seconds(used: Used, text: str) -> float:
    compiled: Any = re.compile(used.pattern, used.flags)
    subject = text.encode("latin-1", "replace") if isinstance(used.pattern, bytes) else text
    signal.signal(signal.SIGVTALRM, _too_long)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
    try:
        found = getattr(compiled, used.method)(subject)
        if used.method == "finditer":
            deque(found, maxlen=0)
    except TimeoutError:
        return LONGEST_S * (1 + len(text))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - start


def _too_long(*_: object) -> None:
    raise TimeoutError


def slow(used: Used) -> str:
    """The text on which the time grows faster than its length, or nothing."""
    shapes = Shapes(used.pattern, used.flags)
    for pump in shapes.pumps() if shapes.has_no_bound else ():  # without such a repeat each start costs at most so much
        screened = any(seconds(used, pumped(pump, size, "\0")) > SCREENED_S for size in (24, 2_500))
        if screened and _grows(used, pump, "\0"):
            return f"{pump[0]!r} + {pump[1]!r} * n"
    return ""


def _grows(used: Used, pump: tuple[str, str], tail: str) -> bool:
    """Whether four times the text takes much more than four times as long, each time that it is measured."""
    for _ in range(3):
        short, middle, long = (seconds(used, pumped(pump, size, tail)) for size in (5_000, 10_000, 20_000))
        if long < 0.005 or long < 8 * short or long < 2.6 * middle:
            return False
    return True
