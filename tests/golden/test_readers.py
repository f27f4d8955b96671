"""Every reader gives its guarantees on a small file of its format. `make golden` rewrites the dumps if that is meant."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import nsys_files
import rocpd_files
import rocprof_v1_files
import rocprofv3_files
from reader_guarantees import check_reader
from support import ROOT

SAMPLES = {
    # name of the dump: the sample
    "kineto": "kineto/cudagraph_infer.json.gz",
    "kineto_cpu": "kineto/cpu_mlp_train.json.gz",
    "xplane": "jax/transformer_step.xplane.pb.gz",
    "proton_trace": "proton/trace.chrome_trace.gz",
    "proton_regions": "proton/intra.chrome_trace.gz",
    "proton_tree": "proton/tree_python.hatchet.gz",
    "proton_msgpack": "proton/scopes_3.9.hatchet_msgpack.gz",
    "ncu_raw": "ncu/ncu_raw.csv.gz",
    "ncu_details": "ncu/ncu_details.csv.gz",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_gives_the_guarantees_of_readers(
    name: str, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    check_reader(name, gzip.decompress((ROOT / "samples" / SAMPLES[name]).read_bytes()), tmp_path, golden)


def nsys(folder: Path) -> bytes:
    return nsys_files.training_step().write(folder / "made").read_bytes()


def rocpd(folder: Path) -> bytes:
    return rocpd_files.training_step().write(folder / "made").read_bytes()


def rocprofv3(_: Path) -> bytes:
    return json.dumps({"rocprofiler-sdk-tool": [rocprofv3_files.training_step()]}).encode()


def rocprof_v1(_: Path) -> bytes:
    return json.dumps(rocprof_v1_files.content(rocprof_v1_files.EVENTS)).encode()


@pytest.mark.parametrize("make", [nsys, rocpd, rocprofv3, rocprof_v1], ids=lambda make: make.__name__)
def test_a_file_made_by_hand_gives_the_guarantees_of_readers(
    make: Callable[[Path], bytes], tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    check_reader(make.__name__, make(tmp_path), tmp_path, golden)
