"""Settings from files: `warplens.toml` of the project, then the user's `config.toml`.

The project's file is the one in the current directory or its nearest parent that has one; the user's is
`$XDG_CONFIG_HOME/warplens/config.toml`. What is given wins over the project, the project over the user. A file only
sets values: nothing in it names a program, and paths are relative to the file itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from warplens_run.base.errors import UsageError

PROJECT_FILE: Final = "warplens.toml"
DEFAULT: Final = "default"
THEMES: Final = ("light", "dark")

Value = str | tuple[str, ...]


class Key(NamedTuple):
    """One setting: its default, what it means, and how a file's value is read."""

    name: str
    default: Value
    meaning: str
    read: Callable[[object, Path], Value | None]
    expected: str
    """What the value has to be, for the error where it is something else."""


class Setting(NamedTuple):
    value: Value
    origin: str
    """The file that set it, or where else it comes from."""

    def __str__(self) -> str:
        return self.value if isinstance(self.value, str) else ", ".join(self.value)


def _text(value: object, folder: Path) -> str | None:
    return value if isinstance(value, str) and value else None


def _duration(value: object, folder: Path) -> str | None:
    from warplens_run.base.units import parse_duration

    try:
        return value if isinstance(value, str) and parse_duration(value) >= 0 else None
    except UsageError:
        return None


def _theme(value: object, folder: Path) -> str | None:
    return value if isinstance(value, str) and value in THEMES else None


def _paths(value: object, folder: Path) -> tuple[str, ...] | None:
    """One path or a list of them, made relative to the file that names them."""
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        return None
    return tuple(str(folder / Path(path).expanduser()) for path in paths)


KEYS: Final = (
    Key("gpu", "", "GPU whose limits apply", _text, 'the name of a GPU, such as "H100 SXM"'),
    Key("rules", (), "files of additional kernel-category rules", _paths, "a path or a list of paths"),
    Key("gap", "10us", "shortest idle gap to list", _duration, 'a duration, such as "10us"'),
    Key("theme", "", "colours of pages and pictures", _theme, '"light" or "dark"'),
)


def load_settings() -> dict[str, Setting]:
    """The value of every key and where it comes from, without the command line."""
    settings = {key.name: Setting(key.default, DEFAULT) for key in KEYS}
    for path in (user_file(), project_file()):
        if path is not None and path.is_file():
            settings |= {name: Setting(value, str(path)) for name, value in _read(path).items()}
    return settings


def project_file() -> Path | None:
    """The nearest `warplens.toml` from the current directory upwards; None where there is none."""
    try:
        here = Path.cwd()
    except OSError:  # the directory was removed
        return None
    return next((path for folder in (here, *here.parents) if (path := folder / PROJECT_FILE).is_file()), None)


def user_file() -> Path | None:
    home = os.environ.get("XDG_CONFIG_HOME")
    try:
        folder = Path(home) if home else Path.home() / ".config"
    except RuntimeError:  # a user without a home
        return None
    return folder / "warplens" / "config.toml"


def _read(path: Path) -> dict[str, Value]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # integers of thousands of digits are no TOMLDecodeError
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{path}: not valid TOML: {reason}") from error
    return _checked(content, path)


def _checked(content: Mapping[str, object], path: Path) -> dict[str, Value]:
    keys = {key.name: key for key in KEYS}
    values: dict[str, Value] = {}
    for name, given in content.items():
        if name not in keys:
            raise UsageError(f"{path}: unknown key {name!r}", hint=f"keys: {', '.join(keys)}")
        value = keys[name].read(given, path.parent)
        if value is None:
            raise UsageError(f"{path}: {name} is not {keys[name].expected}")
        values[name] = value
    return values


def explain_lines() -> Sequence[str]:
    """The effective settings and their origins, for `warplens explain config`."""
    project, user = project_file(), user_file()
    settings = load_settings()
    lines = ["config: settings from files; the command line wins over the project's file, that over the user's"]
    for key in KEYS:
        setting = settings[key.name]
        lines.append(f"  {key.name}: {str(setting) or '(not set)'} [{setting.origin}], {key.meaning}")
    lines.append(f"project's file: {project or f'none ({PROJECT_FILE} in the current directory or one above it)'}")
    lines.append(f"user's file: {user}{'' if user is not None and user.is_file() else ' (does not exist)'}")
    return lines
