"""The error for a table that does not exist, with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Collection

from warplens.errors import UsageError


def unknown_table(name: str, table_names: Collection[str]) -> UsageError:
    """The message itself names what exists: in Python only the message of an error is shown.

    >>> print(unknown_table("kernelz", ["kernels", "ops"]))
    no table 'kernelz': did you mean kernels?
    """
    from difflib import get_close_matches  # only errors need it

    tables = f"tables: {', '.join(table_names)}"
    closest = get_close_matches(name.lower(), table_names, n=1)
    if closest:
        return UsageError(f"no table {name!r}: did you mean {closest[0]}?", hint=tables)
    return UsageError(f"no table {name!r}; {tables}")
