"""The error for a table that does not exist, with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warplens_run.base.errors import UsageError


def unknown_table(name: str, table_names: Collection[str], needs: Mapping[str, str] | None = None) -> UsageError:
    """The message itself names what exists: in Python only the message of an error is shown.

    `needs`: tables that are known and that this source lacks, with what each needs.

    >>> print(unknown_table("kernelz", ["kernels", "ops"]))
    no table 'kernelz': did you mean kernels?
    >>> print(unknown_table("comms", ["kernels", "ops"], {"comms": "collectives"}))
    table comms needs collectives
    >>> print(unknown_table("comm", ["kernels", "ops"], {"comms": "collectives"}))
    no table 'comm': did you mean comms? It needs collectives
    """
    needs = needs or {}
    if name in needs:
        return UsageError(f"table {name} needs {needs[name]}")
    from difflib import get_close_matches  # only errors need it

    tables = f"tables: {', '.join(table_names)}"
    closest = get_close_matches(name.lower(), [*table_names, *needs], n=1)
    if closest and closest[0] in needs:
        return UsageError(f"no table {name!r}: did you mean {closest[0]}? It needs {needs[closest[0]]}", hint=tables)
    if closest:
        return UsageError(f"no table {name!r}: did you mean {closest[0]}?", hint=tables)
    return UsageError(f"no table {name!r}; {tables}")
