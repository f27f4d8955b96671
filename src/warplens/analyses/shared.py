"""`shared`: a result that several analyses need, computed once for each workspace."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def shared(
    compute: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """A function of a workspace whose result is kept with that workspace, per value of the other arguments.

    The results live as long as the workspace. Only the function itself reads them: other code calls the function.

    >>> class Work:
    ...     pass
    >>> @shared
    ... def doubled(work: Work, number: int) -> int:
    ...     print("computing")
    ...     return 2 * number
    >>> work = Work()
    >>> doubled(work, 3), doubled(work, 3)
    computing
    (6, 6)
    """
    key = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def once(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        results: dict[Hashable, Result] = vars(owner).setdefault(key, {})
        given = (args, tuple(sorted(kwargs.items())))
        if given not in results:
            results[given] = compute(owner, *args, **kwargs)
        return results[given]

    return once
