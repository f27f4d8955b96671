"""Moves modules to other packages and rewrites what names them, and does nothing else.

    python tools/move_modules.py tools/moves/NAME.toml

`[modules]` of the file has the old dotted name of each module or package, and its new one; of nested names the longest
one decides. `[packages]` has a line about each package that is new. Imports, dotted names in strings and texts, and
paths of files are rewritten in every text file that git tracks, but for what records the past: samples, decisions and
the change log.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCE = Path("src")
PAST = ("samples/", "docs/decisions/", "CHANGELOG.md", "tools/moves/")
TEXTS = (".py", ".toml", ".md", ".yml", ".sh", ".ts", ".in", "Makefile")


def main(arguments: list[str]) -> int:
    plan = tomllib.loads(Path(arguments[0]).read_text("utf-8"))
    moves: dict[str, str] = plan["modules"]
    texts = _tracked_texts()
    for path in texts:
        if path.suffix == ".py":
            path.write_text(split_imports(path.read_text("utf-8"), moves), "utf-8")
    for path in texts:
        path.write_text(rewritten(path.read_text("utf-8"), moves), "utf-8")
    for old in sorted(moves, key=len, reverse=True):
        _move(old, moves[old])
    for package, line in plan["packages"].items():
        path = SOURCE.joinpath(*package.split("."), "__init__.py")
        if not path.exists():
            path.write_text(f'"""{line}"""\n', "utf-8")
    # A new name has another place among the imports, and another length.
    subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", "--select", "I", "--fix", "."], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", "."], check=True)
    return 0


def new_name(name: str, moves: Mapping[str, str]) -> str:
    """Where a module is afterwards, by the longest name in `moves` that it is or lies below."""
    for old in sorted(moves, key=len, reverse=True):
        if name == old or name.startswith(old + "."):
            return moves[old] + name[len(old) :]
    return name


def split_imports(code: str, moves: Mapping[str, str]) -> str:
    """Modules imported as names of a package (`from package import module`) leave it in a statement of their own.

    Other names follow their package, whose dotted name is rewritten as it stands.
    """
    lines = code.splitlines(keepends=True)
    statements = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom) and node.module]
    for statement in sorted(statements, key=lambda node: node.lineno, reverse=True):
        package = str(statement.module)
        leaving = [each for each in statement.names if _leaves(package, each.name, moves)]
        if not leaving:
            continue
        staying = [each for each in statement.names if each not in leaving]
        indent = " " * statement.col_offset
        written = [f"{indent}from {package} import {', '.join(map(ast.unparse, staying))}\n"] if staying else []
        for each in leaving:
            parent, _, name = new_name(f"{package}.{each.name}", moves).rpartition(".")
            bound = each.asname or each.name
            written.append(f"{indent}from {parent} import {name}{'' if bound == name else f' as {bound}'}\n")
        lines[statement.lineno - 1 : statement.end_lineno] = written
    return "".join(lines)


def _leaves(package: str, name: str, moves: Mapping[str, str]) -> bool:
    module = f"{package}.{name}"
    return module in moves and new_name(module, moves) != f"{new_name(package, moves)}.{name}"


def rewritten(text: str, moves: Mapping[str, str]) -> str:
    """Dotted names and paths of what moves, each replaced once."""
    names = {form: replacement for old in moves for form, replacement in _spellings(old, moves[old])}
    longest_first = sorted(names, key=len, reverse=True)
    # A path's name goes on after a dot as well: `base/units.py`.
    pattern = re.compile(rf"(?<![\w./-])((?:\.\./)*src/)?({'|'.join(map(re.escape, longest_first))})(?!\w)")
    return pattern.sub(lambda match: (match[1] or "") + names[match[2]], text)


def _spellings(old: str, new: str) -> list[tuple[str, str]]:
    return [(old, new), (old.replace(".", "/"), new.replace(".", "/"))]


def _tracked_texts() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [Path(name) for name in listed if name.endswith(TEXTS) and not name.startswith(PAST)]


def _move(old: str, new: str) -> None:
    source, target = (SOURCE.joinpath(*name.split(".")) for name in (old, new))
    # A module may become one of a package with its own old name, which is there already.
    if source.with_suffix(".py").exists():
        source, target = source.with_suffix(".py"), target.with_suffix(".py")
    if not source.is_dir() or not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", str(source), str(target)], check=True)
        return
    for entry in sorted(source.iterdir()):
        if entry.name != "__pycache__":
            subprocess.run(["git", "mv", str(entry), str(target / entry.name)], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
