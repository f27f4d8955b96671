"""Prints an Nsight Compute report as JSON, with NVIDIA's module `ncu_report`: a program of its own, run by `report`.

usage: report_dump.py FOLDER REPORT         where FOLDER holds ncu_report.py
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from typing import Any

IDENTITY = (
    "device__attribute_device_index",
    "launch__stream_id",
    "device__attribute_compute_capability_major",
    "device__attribute_compute_capability_minor",
)
STALL = "smsp__pcsamp_warps_issue_stalled_"
NOT_ISSUED = "_not_issued"
SAMPLES = "smsp__pcsamp_sample_count"
EXECUTED = "inst_executed"
THREADS = "thread_inst_executed_true"
NUMBERS = {
    # metric with a value per instruction: our name
    "derived__memory_l1_wavefronts_shared_excessive": "excess_wavefronts",
    "derived__memory_l2_theoretical_sectors_global_excessive": "excess_sectors",
}
REASONS = {"no_instructions": "no_instruction", "warpgroup_arrive": "gmma"}
KINDS = {"OK": "INF", "OPTIMIZATION": "OPT", "WARNING": "WRN", "ERROR": "ERR"}


def main(folder: str, report: str) -> None:
    sys.path.insert(0, folder)
    ncu_report = importlib.import_module("ncu_report")
    context = ncu_report.load_report(report)
    ranges = [context.range_by_idx(at) for at in range(context.num_ranges())]
    actions = [part.action_by_idx(at) for part in ranges for at in range(part.num_actions())]
    json.dump([_launch(action, ncu_report) for action in actions], sys.stdout)


def _launch(action: Any, ncu_report: Any) -> dict[str, object]:
    metrics = {name: action.metric_by_name(name) for name in action.metric_names()}
    values = {name: (str(metric.value()), metric.unit()) for name, metric in metrics.items() if metric.has_value()}
    instructions = _instructions(action, metrics)
    return {
        "kernel": action.name(action.NameBase_DEMANGLED),
        "metrics": values,
        "rules": _rules(action, ncu_report),
        "instructions": instructions,
        "source_lines": _source_lines(action, instructions),
    }


def _by_address(metrics: Mapping[str, Any], name: str) -> dict[int, int]:
    """Address -> value of a metric that has one per instruction."""
    metric = metrics.get(name)
    if metric is None or not metric.num_instances() or not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    return {addresses.as_uint64(at): metric.as_uint64(at) for at in range(metric.num_instances())}


def _instructions(action: Any, metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    executed, samples, threads = (_by_address(metrics, name) for name in (EXECUTED, SAMPLES, THREADS))
    reasons = {
        REASONS.get(word, word): _by_address(metrics, STALL + word)
        for word in (name[len(STALL) :] for name in metrics if name.startswith(STALL))
        if not word.endswith(NOT_ISSUED)
    }
    numbers = {name: _by_address(metrics, metric) for metric, name in NUMBERS.items()}
    listed = []
    for address in sorted({*executed, *samples}):
        source = action.source_info(address)
        own = {name: float(values[address]) for name, values in numbers.items() if address in values}
        if executed.get(address) and address in threads:
            own["threads"] = threads[address] / executed[address]
        listed.append(
            {
                "address": address,
                "text": action.sass_by_pc(address).strip(),
                "executed": executed.get(address, 0),
                "samples": samples.get(address, 0),
                "stalls": {word: counts[address] for word, counts in reasons.items() if counts.get(address)},
                "numbers": own,
                "file": source.file_name() if source else "",
                "line": source.line() if source else 0,
            }
        )
    return listed


def _source_lines(action: Any, instructions: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    wanted = {(instruction["file"], instruction["line"]) for instruction in instructions if instruction["line"]}
    try:
        texts = {name: content.split("\n") for name, content in action.source_files().items()}
    except Exception:  # noqa: BLE001 - a report without imported sources; the module raises what its C++ does
        return []
    return [
        (file, line, texts[file][line - 1].strip())
        for file, line in sorted(wanted)
        if file in texts and 0 < line <= len(texts[file])
    ]


def _rules(action: Any, ncu_report: Any) -> list[dict[str, str]]:
    """In the words of the details page; none from versions that do not give them."""
    if not hasattr(action, "rule_results_as_dicts"):
        return []
    rules = []
    for rule in action.rule_results_as_dicts():
        message, speedup = rule["rule_message"], rule.get("speedup_estimation") or {}
        rules.append(
            {
                "section": rule["section_identifier"],
                "name": rule["rule_identifier"],
                "kind": KINDS.get(ncu_report.MsgType(message["type"]).name, ""),
                "text": message["message"],
                "speedup": str(speedup.get("speedup", "")),
                "speedup_type": ncu_report.SpeedupType(speedup["type"]).name.lower() if "type" in speedup else "",
            }
        )
    return rules


if __name__ == "__main__":
    main(*sys.argv[1:])
