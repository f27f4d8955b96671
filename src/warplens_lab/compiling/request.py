"""What `kernel check` and `kernel check --sweep` compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from warplens_lab.compiling.loading import SEPARATOR, parse_config
from warplens_lab.compiling.records import Config, OptionValue, ScriptLimits
from warplens_lab.compiling.targets import CompileTarget, parse_targets
from warplens_run.base.errors import UsageError

DEFAULT_TARGETS: Final = "sm90"


@dataclass(frozen=True)
class CompileRequest:
    """A kernel (`FILE.py::kernel`) with its signature, or a script whose launches are compiled as it makes them.

    >>> CompileRequest("add.py::add", "*fp32:16, i32, 1024", configs=("BLOCK=64",)).parsed_configs()[0].text()
    'BLOCK=64'
    """

    source: str
    signature: str | None = None
    """Of a kernel; None for a script."""
    script_arguments: tuple[str, ...] = ()
    targets: str = DEFAULT_TARGETS
    """Names of GPU architectures, separated by commas."""
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    """Compile options, such as `num_warps`, that replace those of a script's launches."""
    configs: tuple[str, ...] = ()
    """Values that replace those of the signature, each as `BLOCK=128,num_warps=8`."""
    grid: tuple[int, ...] | None = None
    card: str | None = None
    """The GPU of the target whose size and limits apply."""
    cache: bool = True
    slow: bool = False
    """Whether suggested changes are compiled even where one compilation takes long."""
    like: str | None = None
    """A script whose launches of the kernel give its signature, in place of `signature`."""
    limits: ScriptLimits = field(default_factory=ScriptLimits)
    """When a script has shown enough."""

    def __post_init__(self) -> None:
        if SEPARATOR not in self.source:
            return
        if self.signature is None and self.like is None:
            raise UsageError(
                "a kernel needs its signature", hint="one entry per parameter: '*fp16:16, *fp16:16, i32:16, 1024'"
            )
        if self.signature is not None and self.like is not None:
            raise UsageError("a signature is given and taken from a script", hint="omit one of the two")

    @property
    def script(self) -> str:
        """The script whose launches are compiled."""
        return self.like or self.source

    def parsed_targets(self) -> list[CompileTarget]:
        return list(parse_targets(self.targets))

    def parsed_configs(self) -> list[Config]:
        return [parse_config(text) for text in self.configs]
