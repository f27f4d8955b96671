"""What is damaged, and what must hold of it: every kind of file that Warplens reads, small, with its check.

A check opens the file and raises `WarplensError` where it is refused; whatever else it raises is a defect.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import nsys_files
import rocpd_files
import rocprof_v1_files
import rocprofv3_files
import warplens
from laws import assert_adds_up, assert_kernels_add_up, assert_no_event_is_lost, assert_shares
from mutant_files import (
    damaged_archive,
    damaged_csv,
    damaged_database,
    damaged_json,
    damaged_protobuf,
    damaged_text,
    zip_of_members,
)
from mutations import TEXT_MUTATIONS, gzip_of, mutated, packed, piece, text_of, written
from native_reading import HANDED_OVER, SAME, verdict
from replay_plans import add, tensor
from replay_plans import plan as replay_plan
from replay_plans import unit as replay_unit
from support import ROOT, SAMPLES
from warplens.native_library import SWITCH
from warplens.planning import make_plan
from warplens.replay.script import unit_script
from warplens_run.formats import proof_plan as proof_plans
from warplens_run.formats import proof_result as proofs
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.bundle_files import EXECUTION_TRACE, MANIFEST
from warplens_run.formats.proof_plan import Experiment, ProofPlan, Swap, UnitCalls, Variant
from warplens_run.formats.proof_result import Difference, ExperimentResult, ProofResult, Side, SwapResult, VariantResult

FOLDER = ROOT / "samples"
MAIN = "mutant"
"""The name of the file that is opened."""
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Subject:
    """A kind of file: `make` damages it, `check` opens what was made; `weight` is its share of the mutants."""

    weight: int
    make: Callable[[Random], Files]
    check: Callable[[Path, Files, bool], None]
    """With the path of `MAIN`, all files as they were made, and whether every table is to be computed."""


def unpacked(*parts: str) -> bytes:
    return gzip.decompress(FOLDER.joinpath(*parts).read_bytes())


def one(content: bytes) -> Files:
    return {MAIN: content}


def check_opened(path: Path, files: Files, thorough: bool, **options: Any) -> None:
    opened = warplens.open(path, cache=False, **options)
    if not isinstance(opened, warplens.Profile):
        for table in opened.tables():
            assert_shares(table)
        assert opened.verdict() is not None
    elif thorough:
        assert_adds_up(opened)
    else:
        assert_kernels_add_up(opened)


def check_in_python(path: Path, files: Files, thorough: bool) -> None:
    """Without the native reader."""
    os.environ[SWITCH] = "0"
    try:
        check_opened(path, files, thorough)
    finally:
        del os.environ[SWITCH]


def damaged_kineto(rng: Random) -> Files:
    return one(packed(rng.choice(TEXT_MUTATIONS)(text_of(piece(rng.choice(SAMPLES))), rng), rng))


def wrong_kineto(rng: Random) -> Files:
    """Wrong values; the document as it was damaged tells how many events there are."""
    document = mutated(piece(rng.choice(SAMPLES)), rng)
    return {MAIN: packed(written(document, rng), rng), "document": json.dumps(document).encode()}


def check_counted(path: Path, files: Files, thorough: bool) -> None:
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    assert_no_event_is_lost(profile, json.loads(files["document"]), "")
    (assert_adds_up if thorough else assert_kernels_add_up)(profile)


def plain_text(rng: Random) -> Files:
    text = text_of(piece(rng.choice(SAMPLES)))
    return one(rng.choice(TEXT_MUTATIONS)(text, rng) if rng.random() < 0.8 else text)


def check_same(path: Path, files: Files, thorough: bool) -> None:
    """The native reader's trace is that of the Python reader, or it hands over."""
    found = verdict(files[MAIN], Random(len(files[MAIN])))
    assert found in (SAME, HANDED_OVER), found


@lru_cache
def chrome() -> Any:
    """A trace of another program: tracks and names, and nothing that PyTorch writes."""
    events = [
        {key: event[key] for key in ("ph", "name", "ts", "dur", "pid", "tid") if key in event}
        for event in piece(SAMPLES[0])["traceEvents"]
    ]
    return {"displayTimeUnit": "ns", "traceEvents": events}


@lru_cache
def document(*parts: str) -> Any:
    return json.loads(unpacked(*parts))


@lru_cache
def proton_trace() -> Any:
    whole = document("proton", "intra.chrome_trace.gz")
    return {**whole, "traceEvents": whole["traceEvents"][:150]}


PROTON_TREES = ("scopes", "cuda_graph", "instrumented", "launch_metadata", "pcsampling", "tree_python", "tree_shadow")


def damaged_tree(rng: Random) -> Files:
    return one(damaged_json(document("proton", f"{rng.choice(PROTON_TREES)}.hatchet.gz"), rng))


@lru_cache
def database(write: Callable[[Path], object]) -> bytes:
    with TemporaryDirectory() as folder:
        write(Path(folder, "x"))
        return Path(folder, "x").read_bytes()


def nsys_database(path: Path) -> object:
    return nsys_files.training_step().write(path)


def rocpd_database(path: Path) -> object:
    return rocpd_files.training_step().write(path)


@lru_cache
def ncu_page(name: str) -> str:
    return "\n".join(unpacked("ncu", name).decode().splitlines()[:40])


def damaged_page(rng: Random) -> Files:
    name = rng.choice(("ncu_raw.csv.gz", "ncu_details.csv.gz"))
    return {MAIN: unpacked("ncu", "ops_trace.json.gz"), "page": damaged_csv(ncu_page(name), rng)}


def check_page(path: Path, files: Files, thorough: bool) -> None:
    check_opened(path, files, thorough, ncu=[path.with_name("page")])


@lru_cache
def execution_trace() -> Any:
    return document("execution_trace", "mlp_train.et.json.gz")


def damaged_execution_trace(rng: Random) -> Files:
    trace = unpacked("execution_trace", "mlp_train.json.gz")
    return {MAIN: trace, "execution_trace": damaged_json(execution_trace(), rng)}


def check_execution_trace(path: Path, files: Files, thorough: bool) -> None:
    check_opened(path, files, thorough, execution_trace=path.with_name("execution_trace"))


def damaged_bundle(rng: Random) -> Files:
    """One member of a capture is damaged, packed as an archive."""
    members = dict(bundle_members())
    name = rng.choice(sorted(members))
    if name.endswith(".gz"):
        members[name] = gzip_of(damaged_text(gzip.decompress(members[name]), rng))
    else:
        members[name] = damaged_json(json.loads(members[name]), rng)
    if rng.random() < 0.1:
        del members[rng.choice(sorted(members))]
    return one(zip_of_members(members, rng))


@lru_cache
def bundle_members() -> dict[str, bytes]:
    """A small capture with all that one can have, and a manifest that fits."""
    with zipfile.ZipFile(FOLDER / "faults" / "bundles" / "graph_gaps.zip") as archive:
        recorded = json.loads(archive.read(MANIFEST))
        timing = archive.read("timing.json")
    members = {
        "timing.json": timing,
        "trace.json.gz": gzip_of(text_of(piece(SAMPLES[0]))),
        "environment.json": json.dumps({"torch": "2.13.0", "gpus": [{"name": "NVIDIA H200"}]}).encode(),
        EXECUTION_TRACE: gzip_of(json.dumps(execution_trace()).encode()),
    }
    files = {name: {"bytes": len(each), "sha256": sha256(each).hexdigest()} for name, each in members.items()}
    return {MANIFEST: json.dumps({**recorded, "notes": ["a note"], "files": files}).encode(), **members}


@lru_cache
def plan_json() -> Any:
    path = FOLDER / "execution_trace" / "mlp_train.json.gz"
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    made = make_plan(profile.workspace, path)
    return json.loads(json.dumps(plan_file.to_json(made)))


def check_plan(path: Path, files: Files, thorough: bool) -> None:
    """What is read can be written and read again, and each unit is a script that Python parses, or refused."""
    plan = plan_file.load(path)
    assert plan_file.parse(json.loads(json.dumps(plan_file.to_json(plan)))) == plan
    for unit in plan.units[:4]:
        try:
            compile(unit_script(plan, unit.id), "script.py", "exec")
        except warplens.WarplensError:
            continue


@lru_cache
def proof_plan_json() -> Any:
    units = (add(), replay_unit("aten::neg", (tensor(0, 4),), (), id="neg", status="refused", reason="no"))
    swap = Swap((UnitCalls("add", 2.0),), (UnitCalls("add", 1.0),), "add")
    experiment = Experiment("WL201", "train.py:3", "a title", (Variant("way", (swap,)),), 1e6)
    return json.loads(json.dumps(proof_plans.to_json(ProofPlan(replay_plan(*units), (experiment,)))))


def check_proof_plan(path: Path, files: Files, thorough: bool) -> None:
    assert proof_plans.load(path).compared() is not None


@lru_cache
def proof_json() -> Any:
    sides = (Side(ns, ns / 4, ("aten::mm",), ("gemm",), 1.0) for ns in (2e6, 1e6))
    variant = VariantResult("way", "done", (SwapResult(*sides, Difference(False, 2e-3, 1e-3), "", 2e6),))
    experiment = ExperimentResult("WL202", "", "a title", (variant,), 1e6)
    trace = FOLDER / "execution_trace" / "mlp_train.json.gz"
    profile = warplens.open(trace, cache=False)
    assert isinstance(profile, warplens.Profile)
    proof = ProofResult("id", trace.name, profile.meta.content_hash, "NVIDIA H200", (experiment,))
    return json.loads(json.dumps(proofs.to_json(proof)))


def damaged_proof(rng: Random) -> Files:
    trace = FOLDER / "execution_trace" / "mlp_train.json.gz"
    return {MAIN: trace.read_bytes(), "proof": damaged_json(proof_json(), rng)}


def check_proof(path: Path, files: Files, thorough: bool) -> None:
    proofs.load(path.with_name("proof"))
    check_opened(path, files, thorough, proof=path.with_name("proof"))


def check_result(path: Path, files: Files, thorough: bool) -> None:
    result_file.load(path)
    check_opened(path, files, thorough)


def of_json(value: Callable[[], Any]) -> Callable[[Random], Files]:
    return lambda rng: one(damaged_json(value(), rng))


def of_bytes(content: Callable[[], bytes], damage: Callable[[bytes, Random], bytes]) -> Callable[[Random], Files]:
    return lambda rng: one(damage(content(), rng))


def packed_damage(content: bytes, rng: Random) -> bytes:
    return packed(damaged_text(content, rng), rng)


def damaged_packing(rng: Random) -> Files:
    """A trace in a tar archive, perhaps packed; what is damaged is the archive or the packed file."""
    content = tar_of(text_of(piece(rng.choice(SAMPLES))))
    if rng.random() < 0.5:
        content = gzip_of(content)
    return one(damaged_text(content, rng) if rng.random() < 0.9 else content)


def tar_of(text: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in (("notes.txt", b"of a run\n"), ("trace.json", text)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


SUBJECTS: dict[str, Subject] = {
    "kineto, damaged text": Subject(6, damaged_kineto, check_opened),
    "kineto, wrong values": Subject(8, wrong_kineto, check_counted),
    "kineto, Python reader": Subject(4, lambda rng: one(wrong_kineto(rng)[MAIN]), check_in_python),
    "kineto, both readers": Subject(8, plain_text, check_same),
    "kineto, tar": Subject(4, damaged_packing, check_opened),
    "chrome trace": Subject(5, of_json(chrome), check_opened),
    "xplane": Subject(3, of_bytes(partial(unpacked, "jax", "transformer_step.xplane.pb.gz"), damaged_protobuf),
                      check_opened),
    "nsys": Subject(5, of_bytes(partial(database, nsys_database), damaged_database), check_opened),
    "rocpd": Subject(5, of_bytes(partial(database, rocpd_database), damaged_database), check_opened),
    "rocprof": Subject(5, of_json(lambda: rocprof_v1_files.content(rocprof_v1_files.EVENTS)), check_opened),
    "rocprofv3": Subject(5, of_json(lambda: {"rocprofiler-sdk-tool": [rocprofv3_files.training_step()]}), check_opened),
    "proton tree": Subject(5, damaged_tree, check_opened),
    "proton msgpack": Subject(2, of_bytes(partial(unpacked, "proton", "scopes_3.9.hatchet_msgpack.gz"), packed_damage),
                              check_opened),
    "proton trace": Subject(3, of_json(proton_trace), check_opened),
    "ncu": Subject(3, damaged_page, check_page),
    "execution trace": Subject(3, damaged_execution_trace, check_execution_trace),
    "bundle": Subject(5, damaged_bundle, check_opened),
    "replay plan": Subject(5, of_json(plan_json), check_plan),
    "replay result": Subject(4, of_json(partial(document, "replay", "gpt2_compiled.result.json.gz")), check_result),
    "proof plan": Subject(3, of_json(proof_plan_json), check_proof_plan),
    "proof": Subject(3, damaged_proof, check_proof),
    "kernel trace": Subject(3, of_bytes(FOLDER.joinpath("kernels", "slow_softmax.wkt").read_bytes, damaged_archive),
                            check_opened),
    "kernel facts": Subject(
        3, of_json(lambda: json.loads(FOLDER.joinpath("kernels", "slow_softmax.facts.json").read_bytes())), check_opened
    ),
}  # fmt: skip
