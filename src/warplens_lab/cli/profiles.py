"""The profiles that `kernel check` compares a kernel with: their options, and how they are opened."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.api import open as open_profile
from warplens.cli.progress import progress
from warplens.hardware import gpu_named
from warplens_lab.checking.checks import CheckResult, with_profiles
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.tracing import KernelTrace, load
from warplens_lab.tracing.watching.recorder import RecordingOptions
from warplens_lab.tracing.watching.script import traced_script
from warplens_run.base.errors import UsageError
from warplens_run.cli.options import SEVERAL
from warplens_run.cli.printing import note

if TYPE_CHECKING:
    from warplens.model.measured import Measured

DEFAULT_TARGET = "sm90"


def add_profile_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", action="append", default=[], metavar="FILE",
                        help="profile of the same kernel (Proton, PyTorch, Nsight …): shows the measured time, and "
                        f"sorts suggestions by the time at stake; {SEVERAL}")  # fmt: skip
    parser.add_argument("--profile-kernel", default="", metavar="NAME",
                        help="name of the kernel in the profile, if it differs; * matches anything")  # fmt: skip
    parser.add_argument("--traced", metavar="x.wkt", help="exact bytes and FLOPs from a trace of the same launch")
    parser.add_argument("--count", action="store_true",
                        help="exact bytes and FLOPs from tracing the script's own launches")  # fmt: skip


def opened_profiles(args: argparse.Namespace) -> list[Measured]:
    """Opened before anything is compiled: a wrong path should not take a minute to be reported."""
    if not args.profile:
        for option in ("traced", "count", "profile_kernel"):
            if getattr(args, option):
                raise UsageError(f"--{option.replace('_', '-')} needs a profile", hint="--profile x.hatchet")
        return []
    if args.sweep:
        raise UsageError("--sweep ranks configs without a profile", hint="omit --profile")
    if args.card:
        gpu_named(args.card)  # an unknown or ambiguous name is reported here
    if args.count and (args.traced or args.signature is not None):
        raise UsageError("--count needs a script", hint="for a single kernel: --traced x.wkt, from kernel trace")
    return [_measured(path) for path in args.profile]


def _measured(path: str) -> Measured:
    with progress(f"reading {path}", Path(path)):
        return open_profile(path).measured()


def target_of(args: argparse.Namespace, profiles: Sequence[Measured]) -> str:
    """The targets that were asked for; else that of the profiles' GPU."""
    if args.target:
        return str(args.target)
    ran_on = (profile.architecture.replace("_", "").rstrip("af") for profile in profiles)
    return next((name for name in ran_on if name in TARGETS), DEFAULT_TARGET)


def card_of(args: argparse.Namespace, profiles: Sequence[Measured], target: str) -> str | None:
    """The card that was named; else the profiles' own, where it is the one that is compiled for."""
    if args.card:
        return str(args.card)
    own = (profile.gpu for profile in profiles if profile.gpu and profile.architecture.replace("_", "") == target)
    return next(own, None)


def joined_with(checked: CheckResult, profiles: Sequence[Measured], args: argparse.Namespace) -> CheckResult:
    if not profiles:
        return checked
    return with_profiles(checked, profiles, traced=_traced(args), card=args.card, name=args.profile_kernel)


def _traced(args: argparse.Namespace) -> KernelTrace | None:
    if args.traced:
        return load(args.traced)
    if args.count:
        traced = traced_script(Path(args.kernel), args.script_args, options=RecordingOptions("count"))
        for message in traced.messages:
            note(message)
        return traced.trace
    return None
