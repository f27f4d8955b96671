"""What stands above and beside the tables of a trace: facts about the file, its GPUs, the meaning of the words."""

from __future__ import annotations

from collections.abc import Collection

from warplens import lab
from warplens.analyses.quality import inferred_family
from warplens.analyses.time.gaps import CAUSES
from warplens.analyses.time.phases import MEANINGS as PHASES
from warplens.analyses.time.timeline import MEANINGS
from warplens.analyses.workspace import Workspace
from warplens.categories.rules import builtin_categories
from warplens.costs.families import FAMILIES
from warplens.hardware import Gpu, gpu_of_device
from warplens.model.arrays import numbered
from warplens.model.trace import Device, Meta, Trace
from warplens_run.base.loading import loaded
from warplens_run.base.units import format_bytes, format_count

NO_DEVICE = "no GPU named in the file"


def definitions() -> dict[str, dict[str, str]]:
    """What the words on a page mean, by subject."""
    return {
        "measures": MEANINGS,
        "causes of idleness": CAUSES,
        "kernel categories": builtin_categories(),
        "phases": PHASES,
        "cost families": dict(FAMILIES),
    }


def find_gpu(trace: Trace) -> Gpu | None:
    """The GPU that worked, from what the trace's header says of it."""
    for device in _working_devices(trace) or trace.meta.devices:
        gpu = gpu_of_device(device.name, device.multiprocessors, device.memory_bytes, device.compute)
        if gpu is not None:
            return gpu
    return None


def _working_devices(trace: Trace) -> list[Device]:
    """The listed devices that GPU events ran on."""
    working_ids = set(numbered(trace.ints("device")[trace.gpu_rows])[0].tolist())
    return [device for device in trace.meta.devices if device.id in working_ids]


def device_line(work: Workspace) -> str:
    """The GPUs of the trace in a few words; of those its header lists, the ones that worked."""
    devices = work.trace.meta.devices
    working = _working_devices(work.trace)
    if len(working) == 1 and len(devices) > 1:
        line = f"{working[0].name or 'unnamed GPU'} (GPU {working[0].id} of {len(devices)} listed)"
    else:
        line = ", ".join(device_names(work.trace)) or NO_DEVICE
    family = inferred_family(work)
    return line if family is None else f"{line}, {family.name} (inferred)"


def device_names(trace: Trace) -> list[str]:
    """The kinds of GPUs that worked, each with how many there are of it; empty where the file names none."""
    names = [device.name or "unnamed GPU" for device in _working_devices(trace) or trace.meta.devices]
    return [f"{names.count(name)} × {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]


def trace_facts(work: Workspace) -> dict[str, str]:
    """The facts about a file that belong on top of every report."""
    meta = work.trace.meta
    facts = {"device": device_line(work), "format": meta.format}
    if rank := rank_text(meta):
        facts["rank"] = rank
    facts |= {"records in file": f"{meta.events_in_file:,}", "content hash": meta.content_hash}
    return facts | dict(meta.facts)


def rank_text(meta: Meta) -> str:
    """`3 of 8`; empty where the file is of no job."""
    if meta.distributed is None:
        return ""
    rank, world_size = meta.distributed.rank, meta.distributed.world_size
    return f"{rank} of {world_size}" if world_size else str(rank)


def headline(meta: Meta, device: str) -> tuple[str, ...]:
    """A profile in one line: its GPU, its format, how much there is of it."""
    rank = (f"rank {rank_text(meta)}",) if rank_text(meta) else ()
    # Not all records become rows of the table `events`: some are marks, names of threads or damaged.
    records = (f"{format_count(meta.events_in_file)} records",) if meta.events_in_file else ()
    return (device, meta.format, *rank, *records, format_bytes(meta.size_bytes))


def explanations(codes: Collection[str]) -> dict[str, str]:
    """Of findings of a trace and of a job, and of suggestions of the kernel lab; rules are loaded where codes are
    theirs."""
    from warplens.advice import RULES, rules_of_others

    texts = {code: RULES.explain(code) for code in codes if code in RULES}
    others = [code for code in codes if code not in RULES]
    texts |= {code: rules.explain(code) for _, rules in rules_of_others() for code in others if code in rules}
    if any(code.startswith("WL") for code in others):
        from warplens.advice.held_memory import MEMORY_RULES
        from warplens.advice.rank_rules import JOB_RULES

        texts |= {code: MEMORY_RULES.explain(code) for code in others if code in MEMORY_RULES}
        texts |= {code: JOB_RULES.explain(code) for code in others if code in JOB_RULES}
    if any(code.startswith("WK") for code in others):
        of_kernels = loaded(lab.RULES)
        texts |= {code: of_kernels.explain(code) for code in others if code in of_kernels}
    return texts
