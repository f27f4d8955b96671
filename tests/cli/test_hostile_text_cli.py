"""Nothing that a file contains or is called reaches a terminal as anything but printable text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile_files import EVIL, EVIL_NAME, SAMPLES, hostile, hostile_bundle, hostile_job, hostile_json, hostile_trace
from support import HANG_SECONDS, ROOT
from warplens.cli.verbs import all_verbs
from warplens_run.cli.verb import Verb, VerbGroup

MARK = "=====>"
RUNNER = """
import json, sys, warnings
from warplens.cli import main, prepare_streams
warnings.simplefilter("ignore")
prepare_streams()
for number, words in enumerate(json.load(open(sys.argv[1]))):
    print("=====>", number, flush=True)
    try:
        main(words)
    except SystemExit:
        pass
    sys.stdout.flush()
    sys.stderr.flush()
"""
DATA = ("--json", "--csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / EVIL_NAME
    folder.mkdir()
    hostile_trace(SAMPLES / "faults" / "odd_vocab.before.json.gz", folder / "t.json.gz")
    hostile_bundle(SAMPLES / "faults" / "bundles" / "dataloader_stall.zip", folder / "bundle")
    hostile_job(SAMPLES / "ranks" / "nccl4", folder / "job")
    hostile_json(SAMPLES / "kernels" / "slow_softmax.facts.json", folder / "facts.json")
    hostile_json(SAMPLES / "replay" / "gpt2_compiled.result.json.gz", folder / "result.json")
    (folder / "proof.json").write_text(json.dumps(_proof()))
    (folder / "broken.json").write_text('{"traceEvents": 3' + EVIL)
    (folder / "rules.toml").write_text('[[rule]]\nname = "\\u001b[31m"\n')
    return folder


def _proof() -> object:
    """A proof as `prove run` writes it, each of its texts hostile."""
    from warplens_run.formats import proof_result as result_file
    from warplens_run.formats.proof_result import ExperimentResult, ProofResult, VariantResult
    from warplens_run.formats.records import encode

    variants = (VariantResult("TF32", "failed", failures=("no memory",)),)
    result = ProofResult("id", "trace", "hash", "H200", (
        ExperimentResult("WL202", "train.py:3", "fp32 products", variants),
        ExperimentResult("WL301", "", "a sync", reason="simulated"),
    ))  # fmt: skip
    return hostile(encode(result)) | {"format": result_file.FORMAT, "version": result_file.VERSION}


def commands(folder: Path) -> list[list[str]]:
    trace, bundle, job = (str(folder / name) for name in ("t.json.gz", "bundle", "job"))
    facts, result, proof, plan = (
        str(folder / name) for name in ("facts.json", "result.json", "proof.json", "plan.json")
    )
    missing, broken, out = (str(folder / name) for name in ("missing.py", "broken.json", "out"))
    opening: list[list[str]] = [
        ["report"], ["advise"], ["unique"], ["tree"], ["show", "kernels"], ["show", "quality"], ["show", "ops"],
        ["sql", "select name, kind from events limit 40"],
    ]  # fmt: skip
    lines = [
        [verb, path, *rest, *form]
        for verb, *rest in opening
        for path in (trace, bundle)
        for form in ([], *([[option] for option in DATA] if verb in ("show", "sql", "unique") else []))
    ]
    lines += [["report", job], ["report", missing], ["report", broken], ["report", trace, "--rules",
              str(folder / "rules.toml")], ["show", trace, "\x1b[31m"], ["show", trace, "kernels", "--where", "\x1b[31m"],
              ["show", trace, "kernels", "--sort", "\x1b[31m"], ["--\x1b[31m"], ["show", trace, "kernels", "--top", "\x1b[3m"],
              ["sql", trace, "select '\x1b[31m' as \"\x1b[32m\""], ["advise", trace, "--json"], ["report", trace, "--json"],
              ["advise", trace, "--proof", proof], ["report", proof], ["tree", trace, "--context", "module"]]  # fmt: skip
    lines += [["diff", trace, bundle], ["diff", trace, trace], ["diff", trace, bundle, "--json"], ["what-if", trace],
              ["what-if", trace, "--fix", "\x1b[31m"], ["flamegraph", trace, "-o", f"{out}.svg"],
              ["gantt", trace, "-o", f"{out}.html"], ["convert", trace, "-o", f"{out}.perfetto.json.gz"],
              ["convert", trace, "-o", f"{out}.speedscope.json", "--force"], ["convert", trace, "-o", f"{out}.speedscope.json"]]  # fmt: skip
    lines += [["replay", "plan", trace, "-o", plan], ["replay", "plan", trace, "-o", plan, "--force", "--json"],
              ["replay", "plan", bundle, "-o", plan, "--force"], ["replay", "plan", trace, "-o", plan, "--force"],
              ["replay", "run", plan, "-o", f"{out}.result.json", "--units", "\x1b[31m"], ["replay", "run", broken],
              ["replay", "show", result], ["replay", "show", result, "--json"], ["replay", "script", plan, "--unit", "u1"],
              ["replay", "script", plan, "--unit", "u2"], ["replay", "export-cpp", plan, "-o", f"{out}-cpp"]]  # fmt: skip
    lines += [["prove", "plan", trace, "-o", f"{out}.proof.plan.json"], ["prove", "run", broken], ["prove", "show", proof],
              ["prove", "show", proof, "--json"], ["prove", "all", broken, "-o", f"{out}.proof.json"],
              ["profile", missing], ["workload", "\x1b[31m"], ["try", "--fix", "WL202", missing], ["energy", "--", missing],
              ["kernel", "check", f"{missing}::k"], ["kernel", "check", f"{missing}::k", "--signature", "*fp16"],
              ["kernel", "trace", missing], ["kernel", "diff", facts, facts], ["report", facts],
              ["kernel", "layout", facts], ["kernel", "layout", "\x1b[31m"],
              ["kernel", "layout", "float[32][32]", "--access", "tile[\x1b[31m]"],
              ["kernel", "puzzles", "list", folder.as_posix()], ["kernel", "puzzles", "start", str(folder / "p")],
              ["kernel", "puzzles", "check", missing], ["kernel", "puzzles", "hint", "\x1b[31m"],
              ["kernel", "puzzles", "solution", "\x1b[31m"], ["explain", "\x1b[31m"], ["completion", "\x1b[31m"]]  # fmt: skip
    return lines


def on_a_terminal(lines: list[list[str]], folder: Path) -> str:
    """What a terminal gets of these commands, one after the other in one process."""
    script = folder / "lines.json"
    script.write_text(json.dumps(lines))
    master, slave = os.openpty()
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "150", "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", RUNNER, str(script)], stdin=subprocess.DEVNULL, stdout=slave,
                          stderr=slave, env=environment, cwd=ROOT) as process:  # fmt: skip
        os.close(slave)
        text = b"".join(_read(master))
        os.close(master)
        assert process.wait(HANG_SECONDS) == 0, text[-3000:].decode()
    return text.decode()


def _read(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(descriptor, 1 << 16)
        except OSError:  # the other side is closed
            return


def test_no_verb_sends_a_terminal_anything_but_printable_text(folder: Path) -> None:
    lines = commands(folder)
    parts = on_a_terminal(lines, folder).split(f"{MARK} ")[1:]
    assert len(parts) == len(lines)
    odd = {}
    for words, part in zip(lines, parts, strict=True):
        assert "Traceback" not in part, (words, part[-3000:])
        # A terminal's own line end is \r\n, and \r alone redraws the progress of reading ranks.
        found = sorted({char for char in part if not (char.isprintable() or char in "\r\n")})
        if found:
            odd[" ".join(words)] = found
    assert not odd


def test_every_verb_meets_hostile_text(folder: Path) -> None:
    def names(verbs: tuple[Verb, ...], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for verb in verbs:
            if isinstance(verb, VerbGroup):
                yield from names(verb.verbs, (*before, verb.name))
            else:
                yield (*before, verb.name)

    run = commands(folder)
    assert [name for name in names(all_verbs()) if not any(tuple(words[: len(name)]) == name for words in run)] == []


def test_data_in_a_pipe_stays_verbatim(folder: Path) -> None:
    def rows(form: str) -> bytes:
        query = "select name from events where name like '%taken%' limit 1"
        command = [sys.executable, "-m", "warplens", "sql", str(folder / "t.json.gz"), query, form]
        return subprocess.run(command, capture_output=True, check=True, timeout=HANG_SECONDS).stdout

    assert EVIL.encode() in rows("--csv")
    assert EVIL in json.loads(rows("--json"))[0]["name"]
