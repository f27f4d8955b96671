"""`attn_implementation` of transformers' models, chosen where they are built."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from warplens_run.base.errors import WarplensError
from warplens_run.trying.fixes.protocol import replaced


class ModelAttention:
    """For a process of its own: it is on from the start, whatever the program asks for."""

    needs_op = ""

    def __init__(self, implementation: str, model_class: Any = None) -> None:
        self.name = f"{implementation} attention"
        self._implementation = implementation
        self._models = 0
        replaced(model_class or _model_class(), "__init__", self._choosing)

    def switch(self, on: bool) -> None:
        if on and not self._models:
            raise WarplensError(f"{self.name}: the program builds no model of transformers")

    def _choosing(self, build: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(build)
        def choose(model: Any, config: Any, *args: Any, **kwargs: Any) -> None:
            self._models += 1
            config._attn_implementation = self._implementation
            build(model, config, *args, **kwargs)

        return choose


def _model_class() -> Any:
    from importlib import import_module

    return import_module("transformers.modeling_utils").PreTrainedModel
