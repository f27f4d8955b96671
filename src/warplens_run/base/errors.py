"""The one error root. Every expected failure has an exit code, a one-line message and, where one helps, a hint.

Messages and hints name no command-line flags: `options` names the parameters that a hint is about, and the command line
adds its own spelling of them.
"""

from __future__ import annotations


class WarplensError(Exception):
    """An expected failure: shown as one line and a hint, never as a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, options: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.options = options


class Terminated(KeyboardInterrupt):
    """A signal that asks the process to end, such as SIGTERM: what is half-written is put away first."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class FormatError(WarplensError):
    """A file that cannot be read as a profile; `where` names the file and, if known, the position in it."""

    def __init__(
        self, message: str, *, where: str = "", hint: str | None = None, options: tuple[str, ...] = ()
    ) -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint, options=options)
        self.where = where


class UsageError(WarplensError):
    """A request that cannot be met: an unknown table, an invalid option, an output that would be overwritten."""

    exit_code = 2


class MissingExtra(WarplensError):  # noqa: N818 - named for what is missing, as users read it
    """An optional package is needed and missing; the hint is the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}", hint=f"pip install 'warplens[{extra}]'")
