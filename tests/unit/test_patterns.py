from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from patterns import Used, all_patterns, slow, sources
from warplens.analyses.trees.rates import FORMULAS
from warplens.analyses.work.places import pattern_of, place_text
from warplens.categories.matching import load_categorizer
from warplens.categories.op_names import op_category
from warplens.categories.rules import builtin_rules, read_packaged_toml
from warplens.categories.short_names import short_name
from warplens.hardware.tables import all_gpus
from warplens.readers.other_files import KNOWN, PACKED, UNPACKED, ZIPPED
from warplens.readers.xplane.match import family
from warplens.readers.xplane.scopes import path_of

ONCE_SLOW = (
    # names of ExecutionTrace's nodes, units of Proton's metrics, metrics of Nsight, kernels, trailing numbers
    (r'("name"\s*:\s*")(.*?)("\s*,\s*"ctrl_deps")', "search"),
    (r"(?P<name>.+?) *\((?P<unit>[A-Za-z]+)\)", "fullmatch"),
    (r"\s*(?P<name>.{1,200}?)\s*(?:\[(?P<unit>[^\]]{0,40})\])?\s*", "fullmatch"),
    (r"[A-Za-z_]\w*__[\w.]+", "fullmatch"),
    (r"^triton_(?P<kind>[a-z]{2,4})_fused(?:_(?P<ops>\w*?[a-z]\w*?))?(?:_\d+)?$", "match"),
    (r"\b_*\w*(metadata_kernel|token_ids)", "search"),
    (r"(?:_\d+)+$", "search"),
    (r"(a+)+b", "match"),
)
GIVEN_AS_VARIABLES = {
    # functions whose pattern is an argument: what hands them theirs is listed in `_from_tables`, or has its own line
    "warplens.analyses.trees.rates": "FORMULAS",
    "warplens.categories.op_names": "ops.toml",
    "warplens.categories.rules": "rules.toml, and the user's own",
    "warplens.cli.traces.path_options": "the user's own",
    "warplens.hardware.lookup": "GPUs",
    "warplens.hardware.tables": "GPUs",
    "warplens.lazy_patterns": "every LazyPattern",
    "warplens.planning.invariants": "compiled in TABLE",
    "warplens.ranks.kinds": "compiled in _PATTERNS",
    "warplens.readers.other_files": "KNOWN, PACKED, UNPACKED, ZIPPED",
    "warplens.readers.registry": "arguments of _has",
    "warplens_run.base.text": "one set of characters",
    "warplens_lab.compiling.proposing": "compiled in tables",
    "warplens_lab.cuda.handing_over": "compiled in _PATTERNS",
    "warplens_lab.facts.instruction_classes": "compiled in _COMPILED",
    "warplens_lab.facts.widths": "_AMD_BITS, each a few words",
    "warplens_lab.measured.match": "a name, as it is, and what follows it",
}
NAME_CHARS = 60_000
NAME_PARTS = (
    "_",
    "<",
    "<>",
    ",",
    ":",
    "1",
    "_1",
    "a<",
    "a::",
    "(",
    "jvp(",
    "a_",
    "cutlass_80_",
    "kernel_",
    "ck_tile::",
)
NAME_STARTS = ("", "_Z", "void ", "triton_red_fused_")
MOST_NAME_S = 1.0
"""Seconds of a processor for one name; the slowest took 14 s."""


def _from_tables() -> Iterator[Used]:
    for rule in builtin_rules():
        if rule.search is not None:
            ignores_case = not (rule.rule.case or rule.search_lower)
            flags = re.IGNORECASE if ignores_case else 0
            yield Used(f"rules.toml: {rule.rule.category}", rule.rule.pattern, flags, rule.search.__name__)
    for family_rule in read_packaged_toml("ops.toml")["pattern"]:
        yield Used("ops.toml", family_rule["pattern"], 0, "search")
    for formula in FORMULAS:
        yield Used("rates.FORMULAS", formula.pattern, re.DOTALL, "fullmatch")
    for gpu in all_gpus():
        for pattern in gpu.match:
            yield Used(f"GPU {gpu.name}", pattern, re.IGNORECASE, "search")
    for start, _ in (*KNOWN, *PACKED, *UNPACKED):
        yield Used("other_files", start, re.DOTALL, "match")
    for member, _ in ZIPPED:
        yield Used("other_files.ZIPPED", member, 0, "match")


@pytest.mark.parametrize(("pattern", "method"), ONCE_SLOW)
def test_a_pattern_with_two_ways_to_match_is_found(pattern: str, method: str) -> None:
    assert slow(Used("here", pattern, 0, method))


def test_no_pattern_takes_more_than_linear_time() -> None:
    patterns, variables = all_patterns(sources())
    assert {where.partition(":")[0] for where in variables} <= GIVEN_AS_VARIABLES.keys()
    assert len(patterns) > 600
    found = {used: text for used in dict.fromkeys([*patterns, *_from_tables()]) if (text := slow(used))}
    assert not found, "\n".join(f"{used.where} {used.method} {used.pattern!r}: {text}" for used, text in found.items())


@pytest.mark.parametrize(
    "function", [short_name, load_categorizer().classify, op_category, family, path_of, place_text, pattern_of]
)
def test_what_is_made_of_a_long_name_takes_bounded_time(function: object) -> None:
    assert callable(function)
    for start in NAME_STARTS:
        for part in NAME_PARTS:
            name = start + part * (NAME_CHARS // len(part))
            begin = time.process_time()
            function(name)
            assert time.process_time() - begin < MOST_NAME_S, (start, part)
