"""Some of PyTorch's own switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.base.torch_switches import CALLS

Values = Mapping[str, Any]
"""By name under `torch`; what is read by a call is named by it."""
TF32: Final[Sequence[Values]] = (
    {"backends.cuda.matmul.allow_tf32": True, "backends.cudnn.allow_tf32": True},
    # A program that has set one of these cannot read the others any more.
    {"backends.cuda.matmul.fp32_precision": "tf32", "backends.cudnn.conv.fp32_precision": "tf32"},
)
ATTENTION: Final = {
    # variant: the part of the switch's name
    "flash": "flash",
    "efficient": "mem_efficient",
    "cudnn": "cudnn",
    "math": "math",
}
ATTENTION_OP: Final = "aten::scaled_dot_product_attention"


class Switches:
    """Of several ways to set the same, the first that can be read is used."""

    def __init__(self, name: str, torch: Any, ways: Sequence[Values], *, needs_op: str = "") -> None:
        self.name, self.needs_op = name, needs_op
        self._torch, self._ways = torch, ways
        self._own: dict[str, Any] = {}
        """What they are without the fix; known while it is on."""

    def switch(self, on: bool) -> None:
        if not on:
            for path, value in self._own.items():
                self._write(path, value)
            self._own = {}
            return
        values, own = self._readable()
        if own == dict(values):
            raise WarplensError(f"{self.name}: the program has it on already")
        self._own = own
        try:
            for path, value in values.items():
                self._write(path, value)
        except (AttributeError, RuntimeError) as error:
            raise WarplensError(f"{self.name}: {str(error).partition(chr(10))[0]}") from None

    def _readable(self) -> tuple[Values, dict[str, Any]]:
        problem = ""
        for values in self._ways:
            try:
                return values, {path: self._read(path) for path in values}
            except (AttributeError, RuntimeError) as error:
                problem = problem or str(error).partition("\n")[0]
        raise WarplensError(f"{self.name}: this PyTorch does not have the switch ({problem})")

    def _read(self, path: str) -> Any:
        place, last = self._place(path)
        value = getattr(place, last)
        return value() if path in CALLS else value

    def _write(self, path: str, value: Any) -> None:
        place, last = self._place(CALLS.get(path, path))
        if path in CALLS:
            getattr(place, last)(value)
        else:
            setattr(place, last, value)

    def _place(self, path: str) -> tuple[Any, str]:
        *parents, last = path.split(".")
        place = self._torch
        for parent in parents:
            place = getattr(place, parent)
        return place, last


def attention_switches(torch: Any, variant: str) -> Switches:
    """One back-end of `scaled_dot_product_attention` and no other: a call that it does not take fails."""
    values = {f"backends.cuda.{name}_sdp_enabled": name == ATTENTION[variant] for name in ATTENTION.values()}
    return Switches(f"{variant} attention", torch, [values], needs_op=ATTENTION_OP)
