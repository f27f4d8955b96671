"""Attributes of other programs' objects that are changed for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

Change = tuple[Any, str, Any]
"""An owner, the name of one of its attributes, and what to put there."""
_ABSENT: Final = object()


@contextmanager
def changed(*changes: Change) -> Iterator[None]:
    """What an object did not have itself is taken away again, and its class's own comes back.

    >>> class Owner:
    ...     name = "own"
    >>> owner = Owner()
    >>> with changed((owner, "name", "lent"), (Owner, "more", 1)):
    ...     print(owner.name, owner.more)
    lent 1
    >>> owner.name, vars(owner), hasattr(owner, "more")
    ('own', {}, False)
    """
    originals = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in reversed(originals):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
