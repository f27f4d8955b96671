"""A JSON line for each call of a linear layer and of attention, written while the model runs.

A linear layer's input and weight are seen by a hook on the layer. Attention is seen where it is computed: in
torch's `scaled_dot_product_attention`, which the models look up by name at each call; a model that multiplies by
hand (BLOOM) returns its matrix of probabilities, whose shape says the same. Under tensor parallelism the shapes are
those of this rank's part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from warplens_run.base.errors import UsageError
from warplens_run.base.files import check_file, whole_file, write_errors
from warplens_run.workloads.libraries import load_torch
from warplens_run.workloads.parallel import local
from warplens_run.workloads.worker import Worker

SDPA = "scaled_dot_product_attention"


def log_path(name: str, worker: Worker) -> Path:
    """The file of this rank."""
    return Path(f"{name}.rank{worker.rank}" if worker.world > 1 else name)


def check_log(path: Path, *, force: bool) -> None:
    """Before the model is built: the file can be made, and nothing is overwritten unasked."""
    if not path.parent.is_dir():
        raise UsageError(f"the shape log {path}: its folder does not exist")
    check_file(path, force=force)


class ShapeLog:
    """Open while the model runs; `iteration` is None where nothing is to be written."""

    def __init__(self, path: Path, module: Any, *, force: bool = True) -> None:
        self.phase = ""
        self.iteration: int | None = None
        self.lines = 0
        self._path, self._force = path, force
        self._module, self._hooks = module, list[Any]()
        self._attention, self._is_logged = "", False

    def __enter__(self) -> ShapeLog:
        with ExitStack() as stack:
            temporary = stack.enter_context(whole_file(self._path, force=self._force))
            self._file: IO[str] = stack.enter_context(temporary.open("w", encoding="utf-8"))
            self._writing = stack.pop_all()
        torch = load_torch()
        for name, layer in self._module.named_modules():
            if isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D":
                self._hooks.append(layer.register_forward_hook(self._linear_hook(name)))
            elif head_dim(layer) is not None:
                self._hooks.append(layer.register_forward_pre_hook(self._attention_begins(name)))
                self._hooks.append(layer.register_forward_hook(self._attention_ends))
        self._sdpa = getattr(torch.nn.functional, SDPA)
        setattr(torch.nn.functional, SDPA, self._logged_sdpa)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        setattr(load_torch().nn.functional, SDPA, self._sdpa)
        for hook in self._hooks:
            hook.remove()
        self._writing.__exit__(kind, error, trace)

    def _linear_hook(self, name: str) -> Any:
        def hook(layer: Any, arguments: Sequence[Any], output: Any) -> None:
            shape, weight = list(local(arguments[0]).shape), list(local(layer.weight).shape)
            # GPT-2's Conv1D is a linear layer that keeps its weight the other way round.
            n = weight[1] if type(layer).__name__ == "Conv1D" else weight[0]
            sizes = {"m": prod(shape[:-1]), "n": n, "k": shape[-1]}
            bias = getattr(layer, "bias", None) is not None
            self._write("linear", name, output.dtype, input=shape, weight=weight, **sizes, bias=bias)

        return hook

    def _attention_begins(self, name: str) -> Any:
        def hook(layer: Any, arguments: Any) -> None:
            self._attention, self._is_logged = name, False

        return hook

    def _attention_ends(self, layer: Any, arguments: Any, output: Any) -> None:
        probabilities = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if not self._is_logged and getattr(probabilities, "ndim", 0) == 4:
            batch, heads, query_tokens, kv_tokens = local(probabilities).shape
            self._write(
                "attention",
                self._attention,
                output[0].dtype,
                input=[batch, heads, query_tokens, head_dim(layer)],
                batch=batch,
                heads=heads,
                kv_heads=heads,
                head_dim=head_dim(layer),
                query_tokens=query_tokens,
                kv_tokens=kv_tokens,
            )
        self._attention = ""

    def _logged_sdpa(self, query: Any, key: Any, value: Any, *arguments: Any, **named: Any) -> Any:
        output = self._sdpa(query, key, value, *arguments, **named)
        self._is_logged = True
        batch, heads, query_tokens, width = local(query).shape
        _, kv_heads, kv_tokens, _ = local(key).shape
        self._write(
            "attention",
            self._attention,
            output.dtype,
            input=[batch, heads, query_tokens, width],
            batch=batch,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=width,
            query_tokens=query_tokens,
            kv_tokens=kv_tokens,
        )
        return output

    def _write(self, kind: str, module: str, dtype: Any, **shapes: Any) -> None:
        if self.iteration is None:
            return
        call = {"iteration": self.iteration, "phase": self.phase, "module": module, "kind": kind}
        line = {**call, **shapes, "dtype": str(dtype).removeprefix("torch.")}
        with write_errors(self._path):
            self._file.write(json.dumps(line) + "\n")
        self.lines += 1


def head_dim(layer: Any) -> int | None:
    """Numbers per head of an attention layer; None for every other layer."""
    for name in ("head_dim", "attention_head_size"):
        if isinstance(value := getattr(layer, name, None), int):
            return value
    return None
