"""What `kernel check FILE.py::kernel` says without a signature: the parameters, and a command to paste and correct."""

from __future__ import annotations

import shlex
from contextlib import suppress

from warplens_lab.compiling.loading import LoadedKernel, load_kernel
from warplens_lab.compiling.proposing import proposed, signature_text
from warplens_run.base.errors import WarplensError
from warplens_run.cli.printing import print_err, print_line, print_out

MOST_DEFAULT = 24


def show_proposal(source: str, options: list[str]) -> int:
    """Status 2, as for any request that lacks something."""
    kernel = load_kernel(source)
    # Its configs would be a better guess; what an import lacks is reported when it is compiled.
    with suppress(WarplensError):
        kernel = kernel.with_configs() if kernel.is_autotuned else kernel
    entries = proposed(kernel)
    print_out(f"{kernel.name} of {kernel.file.name}:{kernel.first_line} has {_counted(kernel)}")
    name_width = max((len(entry.parameter.name) for entry in entries), default=0)
    entry_width = min(max((len(entry.entry) for entry in entries), default=0), MOST_DEFAULT)
    for entry in entries:
        kind = "constexpr" if entry.parameter.is_constexpr else "argument"
        words = f"  {entry.parameter.name:<{name_width}}  {kind:<9}  {entry.entry:<{entry_width}}  {entry.reason}"
        print_line(words, 120)
    path = source.partition("::")[0]
    command = [
        "warplens",
        "kernel",
        "check",
        f"{path}::{kernel.name}",
        "--signature",
        signature_text(entries),
        *options,
    ]
    print_out("a guess from names, defaults and annotations; correct it where it is wrong:")
    print_out(f"  {shlex.join(command)}")
    print_err(f"error: {kernel.name} needs a signature, or --like SCRIPT.py that launches it")
    return 2


def _counted(kernel: LoadedKernel) -> str:
    count = len(kernel.parameters)
    return f"{count} parameter{'' if count == 1 else 's'}; proposed are these entries:"
