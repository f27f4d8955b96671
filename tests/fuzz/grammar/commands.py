"""What is run on a made file: always `report`, and one other command that takes such a file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final

from grammar.values import Case
from warplens.cli.explaining.topics import all_tables

TRACE: Final = (
    *(
        "show {} %table",
        "show {} %table --json",
        "show {} %table --csv",
        "show {} kernels --sort total_us --where total_us>1",
        "advise {}",
        "advise {} --json",
    ),
    *(
        "tree {}",
        "tree {} --context full --depth 9",
        "tree {} --json",
        "tree {} -o {out}x.folded",
        "tree {} --diff {}",
        "tree {} --list",
    ),
    *(
        "convert {} -o {out}x.perfetto.json",
        "convert {} -o {out}x.speedscope.json",
        "convert {} -o {out}x.parquet",
        "convert {} -o {out}x.hatchet",
    ),
    *(
        "report {} -q -o {out}x.html",
        "report {} -q -o {out}x.xlsx",
        "report {} -q -o {out}x.json",
        "report {} -q -o {out}x.md",
        "report {} -q -o {out}tables/ --tables parquet",
    ),
    *(
        "report {} -q -o {out}tables/ --tables csv-safe",
        "diff {} {}",
        "diff {} {} --tree",
        "diff {} {} --json",
        "diff {} --steps",
        "diff {} {} -q -o {out}d.html",
        "what-if {}",
        "what-if {} --graph",
    ),
    *(
        "what-if {} --host 0.5 --scale kernel=* 0.5",
        "flamegraph {} -o {out}x.svg",
        "flamegraph {} --weight cpu -o {out}x.folded",
        "gantt {} -o {out}x.html",
        "unique {}",
        "unique {} --table units",
    ),
    *(
        "replay plan {} -o {out}plan.json",
        "prove plan {} -o {out}proof_plan.json",
        "report {} --timeline corrected",
        "report {} --phase decode",
        "report {} --range ProfilerStep#1",
        "show {} kernels --roofline",
    ),
    "sql {} 'select kind, count(*) from events group by 1' --json",
)
PATHS: Final = (
    *(
        "show {} %table",
        "tree {}",
        "tree {} --list",
        "tree {} --json",
        "tree {} -m time/ms,count",
        "tree {} --diff {}",
        "tree {} -o {out}x.speedscope.json",
        "convert {} -o {out}x.hatchet",
        "flamegraph {} -o {out}x.svg",
    ),
    *(
        "report {} -q -o {out}x.html",
        "report {} -q -o {out}x.xlsx",
        "report {} -q -o {out}x.json",
        "report {} -q -o {out}tables/",
        "diff {} {}",
        "diff {} {} --tree",
        "advise {}",
    ),
)
VERBS: Final[dict[str, tuple[str, ...]]] = {
    "trace": TRACE,
    "paths": PATHS,
    "tables": (
        "show {} %table",
        "show {} %table --json",
        "report {} -q -o {out}x.html",
        "report {} -q -o {out}x.json",
        "report {} -q -o {out}x.xlsx",
        "kernel diff {} {}",
        "kernel trace {}",
        "diff {} {}",
    ),
    "job": (
        *(
            "report {} -q -o {out}x.html",
            "report {} -q -o {out}x.json",
            "report {} --rank 0",
            "show {} %table",
            "show {} stragglers --json",
            "show {} collectives",
            "advise {}",
            "diff {} {}",
            "unique {}",
        ),
        *("convert {} -o {out}x.perfetto.json", "gantt {} -o {out}x.html", "sql {} 'select * from ranks' --json"),
    ),
    "plan": (
        "replay script {} --unit u1",
        "replay script {} --unit u2 -o {out}x.py",
        "replay export-cpp {} -o {out}cpp",
        "replay export-cpp {} -o {out}cpp --readable",
    ),
    "proof plan": ("replay script {} --unit add", "prove show {}"),
    "proof": (
        "prove show {proof.json}",
        "prove show {proof.json} --json",
        "advise {}",
        "report {} -q -o {out}x.html",
        "report {} -q -o {out}x.json",
        "show {} findings",
        "show {} evidence",
    ),
    "result": (
        "replay show {result.json}",
        "replay show {result.json} replay_units --json",
        "replay show {result.json} -o {out}x.html",
        "replay show {result.json} -o {out}x.xlsx",
        "show {} replay_units",
        "show {} replay",
        "report {} -q -o {out}x.html",
    ),
}


def commands(case: Case, rng: Random, folder: Path) -> list[list[str]]:
    """The words of both commands; `folder` has the files of the case."""
    kind = "paths" if case.opened.endswith((".hatchet", "_msgpack")) else case.verbs
    return [_words("report {}", case, rng, folder), _words(rng.choice(VERBS[kind]), case, rng, folder)]


def _words(pattern: str, case: Case, rng: Random, folder: Path) -> list[str]:
    opened, places = str(folder / case.opened), {name: str(folder / name) for name in (*case.files, "captures")}
    options = [_filled(word, places) for word in case.options]
    query = pattern.partition("'")[2].rpartition("'")[0]
    words = list(pattern.replace(f"'{query}'", "%query").split()) if query else pattern.split()
    filled: list[str] = []
    for word in words:
        word = (
            opened
            if word == "{}"
            else rng.choice(_tables())
            if word == "%table"
            else query
            if word == "%query"
            else word
        )
        filled.append(_filled(word.replace("{out}", f"{folder}/out/"), places))
    takes_options = words[0] not in ("replay", "prove", "kernel") or words[1] == "plan"
    return [*filled, *options] if takes_options and words[0] != "diff" else filled


def _filled(word: str, places: dict[str, str]) -> str:
    return places[word[1:-1]] if word[1:-1] in places and word.startswith("{") else word


@lru_cache
def _tables() -> list[str]:
    return [table.name for table in all_tables()]
