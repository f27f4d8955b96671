"""The texts behind `warplens explain`, all taken from where the thing itself is defined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from warplens import lab
from warplens.advice import RULES, rules_of_others
from warplens.advice.held_memory import MEMORY_RULES
from warplens.advice.rank_rules import JOB_RULES
from warplens.advice.thresholds import (
    COMMUNICATION_BOUND_PERCENT,
    IDLE_BOUND_PERCENT,
    LIMIT_PERCENT,
    LIMIT_SHARE,
)
from warplens.advice.verdict import explained_bound
from warplens.analyses import COUNTER_TABLES, RANGE_TABLES
from warplens.analyses.graph.breakdown import PARTS
from warplens.analyses.graph.host_work import MEANINGS as HOST_CAUSES
from warplens.analyses.graph.idle_chains import CAUSES as IDLE_CAUSES
from warplens.analyses.memory.categories import CATEGORIES
from warplens.analyses.memory.history import MemoryHistory
from warplens.analyses.memory.memory_work import MemoryWork
from warplens.analyses.memory.peak import BESIDE
from warplens.analyses.memory.tables import MEMORY_TABLES
from warplens.analyses.serving.registry import without_rows
from warplens.analyses.time.gaps import CAUSES
from warplens.analyses.time.phases import MEANINGS as PHASES
from warplens.analyses.time.timeline import MEANINGS
from warplens.categories import category_names
from warplens.categories.rules import builtin_categories
from warplens.costs.families import FAMILIES
from warplens.hardware import Gpu, all_gpus
from warplens.model.answer import CERTAINTIES
from warplens.model.answer import FIELDS as ANSWER_FIELDS
from warplens.model.answer import KINDS as ANSWER_KINDS
from warplens.model.clock import SOURCES as CLOCK_SOURCES
from warplens.model.quality import MESSAGES, explained
from warplens.model.rule import RuleSet
from warplens.model.table import Table
from warplens.model.trace import empty_trace
from warplens.profiles.comparison import compare_profiles
from warplens.profiles.trace import Profile
from warplens.ranks.digest import digest
from warplens.ranks.job import Job
from warplens.ranks.own_pace import JobModel
from warplens.ranks.step_parts import CAUSES as JOB_CAUSES
from warplens.ranks.step_parts import PARTS as JOB_PARTS
from warplens.ranks.tables import JOB_TABLES
from warplens_run.base.loading import loaded
from warplens_run.base.units import listed
from warplens_run.formats.replay_result import empty_result

USES = {
    "mfu": (
        "model FLOPs utilisation: the FLOPs of the ops, counted from their shapes, over what the GPU's matrix units "
        "could do in the whole time, idle time included, by the data sheet"
    ),
    "mbu": (
        "memory bandwidth utilisation: the bytes that the ops have to read and write, over what the GPU's memory could "
        "move in the whole time, idle time included, by the data sheet; of a call that has more bytes than its "
        "kernels had time for, only those that fit count"
    ),
}


def list_topics() -> Iterator[str]:
    yield "tables (warplens explain TABLE, or TABLE.COLUMN, or COLUMN):"
    for table in all_tables():
        yield f"  {table.name}: {table.meaning}"
    yield "measures of the timeline: " + ", ".join(MEANINGS)
    yield "finding codes: " + ", ".join(RULES.codes)
    for extension, rules in rules_of_others():
        yield f"finding codes of {extension.package}: {', '.join(rules.codes)}"
    yield "finding codes of memory: " + ", ".join(MEMORY_RULES.codes)
    yield "finding codes of jobs of many ranks: " + ", ".join(JOB_RULES.codes)
    yield "more: verdict, gpus (those whose limits are known), costs (families of FLOP and byte counts), config"
    yield "quality notes: " + ", ".join(MESSAGES)
    yield "kernel categories: " + ", ".join(category_names())
    yield from loaded(lab.TOPICS)()


def rule_topic(topic: str) -> Iterator[str]:
    code = topic.upper()
    own: tuple[RuleSet[Any, Any], ...] = (RULES, MEMORY_RULES, JOB_RULES)
    for rules in (*own, *(others for _, others in rules_of_others())):
        if code in rules:
            yield f"{code}: {rules.explain(code)}"


def lab_topic(topic: str) -> Iterator[str]:
    yield from loaded(lab.TOPIC)(topic)


def quality_topic(topic: str) -> Iterator[str]:
    if topic in MESSAGES:
        yield f"{topic} ({MESSAGES[topic][0]}): {explained(topic)}"


def timeline_topic(topic: str) -> Iterator[str]:
    for measure, meaning in MEANINGS.items():
        if topic in (measure, "timeline"):
            yield f"{measure}: {meaning}"


def category_topic(topic: str) -> Iterator[str]:
    for category, meaning in builtin_categories().items():
        if topic.lower() == category.lower():
            yield f"{category}: {meaning}"


def verdict_topic(topic: str) -> Iterator[str]:
    if topic == "verdict":
        yield (
            f"verdict: what makes the simulated step {LIMIT_PERCENT:g} % shorter or more if it takes no time: the GPU, "
            "the host with its launches, or communication (table bounds); Mixed where a second one saves at least "
            f"{100 * LIMIT_SHARE:g} % of what the first one saves; Balanced where none does, because GPU and host take "
            "equally long"
        )
        yield (
            f"  where the step cannot be simulated: cannot tell from {IDLE_BOUND_PERCENT:g} % idle on; else "
            f"Communication-bound from {COMMUNICATION_BOUND_PERCENT:g} % exposed communication on; else GPU-bound"
        )
        yield "  times are of one step as the table step_time has it; a bound is of the longest step that fits"


def gpu_topic(topic: str) -> Iterator[str]:
    if topic.lower() in ("gpus", "gpu", "ceilings"):
        yield "GPUs whose limits are known (--gpu NAME; a file of your own with --gpu-file):"
        yield from (f"  {gpu.name}: {_gpu_line(gpu)}" for gpu in all_gpus())


def _gpu_line(gpu: Gpu) -> str:
    peak, bandwidth = gpu.peak_tflops("matrix", "bf16") or gpu.peak_tflops("matrix", "fp16"), gpu.bandwidth_tbps()
    rate = f"{peak.value:g} TFLOP/s in 16 bits{' (measured)' * peak.measured}, " if peak else ""
    return f"{rate}{bandwidth.value:g} TB/s{' (measured)' * bandwidth.measured}, {gpu.memory_gb:g} GB"


def cost_topic(topic: str) -> Iterator[str]:
    if topic.lower() in ("costs", "cost", "family"):
        yield "FLOPs: a multiply-add is 2. Bytes: each input read once and each output written once, at true sizes."
    for family, meaning in FAMILIES.items():
        if topic.lower() in (family, "costs", "cost", "family"):
            yield f"  {family}: {meaning}"


def phase_topic(topic: str) -> Iterator[str]:
    for phase, meaning in PHASES.items():
        if topic in (phase, "phases"):
            yield f"{phase}: {meaning}"


def cause_topic(topic: str) -> Iterator[str]:
    for cause, meaning in CAUSES.items():
        if topic.lower() == cause:
            yield f"{cause} (a cause of idle time): {meaning}"


def use_topic(topic: str) -> Iterator[str]:
    if topic.lower() in USES:
        yield f"{topic.upper()}: {USES[topic.lower()]}"


def memory_topic(topic: str) -> Iterator[str]:
    for category, meaning in (CATEGORIES | BESIDE).items():
        if topic in (category, "memory_peak"):
            yield f"{category}: {meaning}"


def table_topics(topic: str) -> Iterator[str]:
    table_name, _, column_name = topic.partition(".")
    tables = all_tables()
    is_table = any(table.name == topic for table in tables)
    for table in tables:
        if table.name == table_name:
            yield f"{table.name}: {table.meaning}"
        for column in table.columns:
            is_meant = table.name == table_name and column_name in ("", column.name)
            if is_meant or (topic == column.name and not is_table):
                unit = f" [{column.unit}]" if column.unit else ""
                yield f"  {table.name}.{column.name}{unit}: {column.meaning}"
    others = [table.name for table in tables if topic in {column.name for column in table.columns}]
    if is_table and others:
        yield f"also a column of {listed(others)}: warplens explain {others[0]}.{topic}"
    if topic in ("idle", "gaps"):
        yield "causes:"
        yield from (f"  {cause}: {meaning}" for cause, meaning in CAUSES.items())


def all_tables() -> list[Table]:
    """Every table of a trace without events, of two, and of a job of one such rank: all columns.

    The table of one name has in a job the columns of a trace, and perhaps the rank before them.
    """
    profile = Profile(empty_trace(), replayed=empty_result())
    job = JobModel(Job((digest(profile.workspace, 0, ""),)))
    of_job = {name: entry(job) for name, entry in JOB_TABLES.items()}
    own = [
        Table.from_rows(name, profile.table(name).meaning, of_job.pop(name, profile.table(name)).columns, [])
        for name in profile.table_names
    ]
    of_memory = [entry(MemoryWork(MemoryHistory(()))) for entry in MEMORY_TABLES.values()]
    of_counters = [entry(profile.workspace) for entry in (*COUNTER_TABLES.values(), *RANGE_TABLES.values())]
    compared = compare_profiles(profile, profile).tables()
    return [*own, *without_rows(), *of_memory, *of_counters, *compared, *of_job.values(), *loaded(lab.TABLES)()]


def answer_topic(topic: str) -> Iterator[str]:
    """Words that the Answer prints: of its clock, of parts of a step and their causes, of how sure it is."""
    known = {**{f"host: {cause}": meaning for cause, meaning in HOST_CAUSES.items()}, **HOST_CAUSES}
    for what, meanings in (
        ("part of a step", PARTS | JOB_PARTS),
        ("part of a job's step", JOB_CAUSES),
        ("cause of idle time", IDLE_CAUSES),
        ("what the host does", known),
        ("source of the step's time", CLOCK_SOURCES),
        ("how sure", CERTAINTIES),
        ("field of the Answer", ANSWER_FIELDS),
        ("word of the Answer", ANSWER_KINDS),
    ):
        if topic in meanings:
            yield f"{topic} ({what}): {meanings[topic]}"
    if topic.startswith("host: ") and topic not in known:
        yield f"{topic}: the host works in this file or range of the program's while no GPU works"
    if topic.startswith(("memcpy ", "rocclr ")):
        yield f"{topic}: copies of this kind that run while nothing computes or communicates"
    if meaning := explained_bound(topic):
        yield f"{topic} (what limits a step): {meaning}"
    if topic == "answer":
        yield "answer: what is concluded of what was opened; report, its page and x.json show the same one"
        yield from (f"  {word}: {meaning}" for word, meaning in CERTAINTIES.items())


TOPICS = (
    verdict_topic,
    answer_topic,
    rule_topic,
    lab_topic,
    quality_topic,
    timeline_topic,
    category_topic,
    gpu_topic,
    cost_topic,
    phase_topic,
    cause_topic,
    use_topic,
    memory_topic,
    table_topics,
)
"""Whoever knows a topic explains it; several can."""
