"""Completion scripts, in the shells they are for: what follows a verb, an option, and a word that is neither."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support import HANG_SECONDS
from warplens.cli import build_parser, main
from warplens.cli.completion.commands import commands_of
from warplens.cli.verbs import all_verbs

TYPED = {
    # the line so far: completions that have to be there, and one that must not
    "warplens rep": ({"report", "replay"}, "show"),
    "warplens report --tables ": ({"csv", "parquet"}, "report"),
    "warplens kernel ch": ({"check"}, "checks"),
    "warplens kernel check x.py --sig": ({"--signature"}, "--gap"),
    "warplens kernel puzzles s": ({"start", "solution"}, "show"),
    "warplens workload g": ({"gpt2"}, "bert"),
    "warplens show trace --so": ({"--sort"}, "--gap"),
    "warplens replay show result --js": ({"--json"}, "--jobs"),
    "warplens completion ": ({"bash", "zsh", "fish"}, "report"),
}
# What zsh's own functions would show is printed instead: the name before each description.
ZSH_STUBS = """
compdef() { :; }
_describe() { local -a shown=("${(@P)@[-1]}"); print -l -- "${shown[@]%%:*}"; }
compadd() { shift; print -l -- "$@"; }
_files() { print FILES; }
"""


def script_for(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    path = tmp_path / f"completion.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def answers(shell: str, path: Path, line: str) -> list[str]:
    if shell == "fish":
        command = ["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"]
    elif shell == "bash":
        words = " ".join(f'"{word}"' for word in line.split(" "))
        text = f"source {path}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _warplens"
        command = ["bash", "--norc", "-c", f'{text}; printf "%s\\n" "${{COMPREPLY[@]}}"']
    else:
        words = " ".join(f'"{word}"' for word in line.split(" "))
        command = ["zsh", "-f", "-c", f"{ZSH_STUBS} source {path}; words=({words}); CURRENT=$#words; _warplens"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    assert finished.stderr == ""
    return [text.partition("\t")[0] for text in finished.stdout.split("\n")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_verbs_options_and_values(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script_for(shell, tmp_path, capsys)
    subprocess.run([shell, "-n", str(path)], check=True, timeout=HANG_SECONDS)
    for line, (expected, other) in TYPED.items():
        found = set(answers(shell, path, line))
        assert expected <= found, line
        # zsh itself leaves out what does not begin like the word.
        assert other not in found or shell == "zsh", line


@pytest.mark.parametrize(("shell", "shown"), [("zsh", "FILES"), ("bash", "")])
def test_where_nothing_is_known_files_are_completed(
    shell: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script_for(shell, tmp_path, capsys)
    assert answers(shell, path, "warplens report tr")[0] == shown
    assert answers(shell, path, "warplens report trace -o ")[0] == shown
    # With nothing to say, bash falls back to files because of this option.
    assert shell == "zsh" or "complete -o default" in path.read_text()


def test_every_verb_is_in_the_scripts() -> None:
    commands = {command.path: command for command in commands_of(build_parser())}
    assert [name for name, _ in commands["warplens"].verbs] == [verb.name for verb in all_verbs()]
    assert {"warplens kernel check", "warplens replay export-cpp", "warplens kernel puzzles hint"} <= set(commands)
    assert all(text for _, text in commands["warplens"].verbs)


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["completion", "tcsh"])
    assert stopped.value.code == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
