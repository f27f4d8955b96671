"""Completion scripts, in the shells they are for: what follows a verb, an option, and a word that is neither."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import HANG_SECONDS
from warplens.cli import main
from warplens.cli.completion import SHELLS

TYPED = {
    # the line so far, and its completions
    "warplens rep": {"report", "replay"},
    "warplens report --tables par": {"parquet"},
    "warplens kernel puzzles s": {"start", "solution"},
    "warplens kernel check x.py --sig": {"--signature"},
    "warplens report tr": {"trace.json"},
    "warplens report trace.json -o tr": {"trace.json"},
}


def script_for(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    path = tmp_path / f"completion.{shell}"
    path.write_text(capsys.readouterr().out)
    subprocess.run([shell, "-n", path], check=True, timeout=HANG_SECONDS)
    return path


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_shell_completes_verbs_options_values_and_files(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script_for(shell, tmp_path, capsys)
    (tmp_path / "trace.json").touch()
    for line, expected in TYPED.items():
        if shell == "fish":
            command = ["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"]
        else:
            typed = f"COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shtab_warplens"
            command = ["bash", "--norc", "-c", f'source {path}; {typed}; printf "%s\\n" "${{COMPREPLY[@]}}"']
        finished = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=HANG_SECONDS, check=True
        )
        assert {text.partition("\t")[0] for text in finished.stdout.splitlines()} == expected, line


def test_zsh_completes_options_behind_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = script_for("zsh", tmp_path, capsys).read_text()
    assert '"(*)::arguments of the script' in text, "behind `(-)*`, zsh completes no option"


def test_without_shtab_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    error = capsys.readouterr().err
    assert "completion needs shtab" in error and "pip install 'warplens[completion]'" in error


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["completion", "tcsh"])
    assert stopped.value.code == 2
    assert ", ".join(map(repr, SHELLS)) in capsys.readouterr().err
