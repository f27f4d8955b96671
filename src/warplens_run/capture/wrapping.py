"""Functions that run inside a context, as if their body stood in a `with`: also coroutines and generators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def inside(function: Function, context: Callable[[], AbstractContextManager[Any]]) -> Function:
    """The function, each call of which runs inside a context of its own."""
    import inspect

    if inspect.iscoroutinefunction(function):
        wrapped = _coroutine(function, context)
    elif inspect.isasyncgenfunction(function):
        wrapped = _async_generator(function, context)
    elif inspect.isgeneratorfunction(function):
        wrapped = _generator(function, context)
    else:
        wrapped = _plain(function, context)
    return functools.update_wrapper(wrapped, function)  # type: ignore[return-value]


def _plain(function: Callable[..., Any], context: Callable[[], AbstractContextManager[Any]]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    return wrapped


def _coroutine(function: Callable[..., Any], context: Callable[[], AbstractContextManager[Any]]) -> Callable[..., Any]:
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context():
            return await function(*args, **kwargs)

    return wrapped


def _generator(function: Callable[..., Any], context: Callable[[], AbstractContextManager[Any]]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context():
            return (yield from function(*args, **kwargs))

    return wrapped


def _async_generator(
    function: Callable[..., Any], context: Callable[[], AbstractContextManager[Any]]
) -> Callable[..., Any]:
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context():
            async for item in function(*args, **kwargs):
                yield item

    return wrapped
