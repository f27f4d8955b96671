"""`warplens kernel check FILE.cu`: the options of CUDA C++, and what they ask for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warplens_lab.cli.profiles import card_of, target_of
from warplens_lab.cuda.request import DEFAULT_STANDARD, CudaRequest, parse_block
from warplens_run.base.errors import UsageError
from warplens_run.cli.options import SEVERAL

if TYPE_CHECKING:
    from warplens.model.measured import Measured

ONLY_CUDA = ("block", "define", "include", "std", "nvrtc_option", "dynamic_shared")
ONLY_TRITON = ("signature", "like", "launches", "seconds", "num_warps", "num_stages", "config", "sweep", "slow")


def add_cuda_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--block", metavar="X[,Y[,Z]]",
                        help="threads of a block, of CUDA C++ (default: of the file's launch or __launch_bounds__, "
                        "else 256)")  # fmt: skip
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME=VALUE",
                        help=f"define a macro (CUDA C++); {SEVERAL}")  # fmt: skip
    parser.add_argument("-I", dest="include", action="append", default=[], metavar="DIR",
                        help=f"folder with headers (CUDA C++); {SEVERAL}")  # fmt: skip
    parser.add_argument("--std", metavar="c++17", help="version of C++ (default c++17)")
    parser.add_argument(
        "--dynamic-shared", type=int, metavar="BYTES", help="shared memory that the launch asks for (CUDA C++)"
    )
    parser.add_argument("--nvrtc-option", action="append", default=[], metavar="OPTION",
                        help=f"another option of NVRTC, as --nvrtc-option=--use_fast_math; {SEVERAL}")  # fmt: skip


def refuse_others(args: argparse.Namespace, *, is_cuda: bool) -> None:
    """An option of the other language would have no effect."""
    for name in ONLY_TRITON if is_cuda else ONLY_CUDA:
        if getattr(args, name):
            option = {"define": "-D", "include": "-I"}.get(name, f"--{name.replace('_', '-')}")
            of = "Triton kernels" if is_cuda else "CUDA C++ (.cu)"
            raise UsageError(f"{option} is for {of}")


def cuda_request(args: argparse.Namespace, profiles: Sequence[Measured], grid: tuple[int, ...] | None) -> CudaRequest:
    targets = target_of(args, profiles)
    return CudaRequest(
        args.kernel,
        targets,
        parse_block(args.block) if args.block else None,
        grid,
        card_of(args, profiles, targets),
        tuple(args.define),
        tuple(args.include),
        args.std or DEFAULT_STANDARD,
        tuple(args.nvrtc_option),
        args.dynamic_shared or 0,
        not args.no_cache,
    )
