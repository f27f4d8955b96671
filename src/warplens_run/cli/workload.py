"""`warplens workload`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from warplens_run.cli.options import add_force, add_json, not_negative, positive, whole_between
from warplens_run.cli.printing import print_err, print_out, write_bytes
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens_run.workloads import WorkloadOptions

# Written out: asking the package of workloads would cost every verb's start its import.
MODELS = ("bloom-560m", "vicuna-7b", "gpt2", "resnet50", "bert")


class WorkloadVerb(Verb):
    """Run a reference model to profile, by default with random weights.

    Language models generate (prefill, then token by token), bert and resnet50 answer in one call; with --mode train
    all of them train with AdamW. Needs torch and transformers. --tiny runs a small model of the same kind, on a CPU
    as well. Several GPUs: torchrun --nproc-per-node 2 -m warplens workload bloom-560m --tp 2
    """

    name = "workload"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL", choices=MODELS, help=", ".join(MODELS))
        parser.add_argument(
            "--tiny", action="store_true", help="a small model of the same kind, for a CPU and for tests"
        )
        parser.add_argument(
            "--mode", choices=("infer", "train"), help="default: gpt2 and resnet50 train, the others infer"
        )
        parser.add_argument("--batch", type=positive, metavar="N", help="batch size: sequences or images")
        parser.add_argument("--prompt-tokens", type=positive, metavar="N", help="length of each sequence")
        parser.add_argument("--max-new-tokens", type=positive, metavar="N", help="tokens to generate for each sequence")
        parser.add_argument("--prompt", metavar="TEXT", help="text to continue, where the model's tokenizer is there")
        parser.add_argument("--tokenizer", metavar="WHAT", help="folder or hub id of the prompt's tokenizer "
                            "(default: of --weights, else the published model's)")  # fmt: skip
        # Its name before it was that of transformers.
        parser.add_argument(
            "--new-tokens", dest="max_new_tokens", type=positive, default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        parser.add_argument(
            "--dtype", choices=("fp32", "bf16", "fp16"), help="default: bf16 on a GPU that has it, fp32 on a CPU"
        )
        parser.add_argument(
            "--device", choices=("auto", "cuda", "cpu"), default="auto", help="auto: the GPU; the CPU only with --tiny"
        )
        parser.add_argument("--compile", action="store_true", help="use torch.compile")
        parser.add_argument(
            "--cuda-graph", action="store_true", help="replay a CUDA graph of a decode step or a whole step"
        )
        parser.add_argument(
            "--tp", type=positive, default=1, metavar="N", help="tensor-parallel over N ranks (bloom-560m, vicuna-7b)"
        )
        parser.add_argument(
            "--weights",
            default="random",
            metavar="WHAT",
            help="random (default), a folder of a checkpoint, or a hub id",
        )
        parser.add_argument(
            "--load-in-8bit",
            action=argparse.BooleanOptionalAction,
            default=False,
            help="weights of linear layers in 8 bits (needs bitsandbytes)",
        )
        parser.add_argument("--iterations", type=positive, default=3, metavar="N", help="timed iterations (default 3)")
        parser.add_argument(
            "--warmup", type=not_negative, default=1, metavar="N", help="untimed iterations before them (default 1)"
        )
        parser.add_argument(
            "--seed",
            type=whole_between(0, 2**31 - 1),
            default=0,
            metavar="N",
            help="seed of weights and inputs (default 0)",
        )
        parser.add_argument("--shape-log", metavar="FILE", help="write a JSON line per linear and attention call")
        add_force(parser)
        add_json(parser)

    def run(self, args: argparse.Namespace) -> int:
        from dataclasses import fields

        from warplens_run.workloads import WorkloadOptions, run_workload
        from warplens_run.workloads.result import render, to_json
        from warplens_run.workloads.worker import RanksError

        options = WorkloadOptions(**{field.name: getattr(args, field.name) for field in fields(WorkloadOptions)})
        try:
            result = run_workload(options, say=print_err)
        except RanksError as error:
            before = getattr(args, "before", ())
            raise RanksError(error.message, hint=torchrun_command(options, before)) from error
        if result is not None:
            if args.json:
                write_bytes(to_json(result).encode())
            else:
                print_out(render(result))
        return 0


def torchrun_command(options: WorkloadOptions, before: Sequence[str] = ()) -> str:
    """The command that starts this run on its ranks, as this machine has torchrun; `before`: words before the verb."""
    beside = Path(sys.executable).with_name("torchrun")
    on_path = which("torchrun")
    torchrun = ["torchrun"] if on_path and Path(on_path) == beside else [sys.executable, "-m", "torch.distributed.run"]
    words = [*torchrun, "--nproc-per-node", str(options.tp), "-m", "warplens", *before, "workload"]
    return shlex.join([*words, *typed_arguments(options)])


def typed_arguments(options: WorkloadOptions) -> list[str]:
    """The options as they are typed after `warplens workload`."""
    from dataclasses import fields

    typed = [options.model]
    for field in fields(options)[1:]:
        value = getattr(options, field.name)
        if value != field.default:
            flag = f"--{field.name.replace('_', '-')}"
            typed += [flag] if value is True else [flag, str(value)]
    return typed
