"""Settings from files: which file wins, what is refused, and what they change."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from support import SAMPLES
from warplens.cli import main
from warplens.cli.config import apply_settings
from warplens.settings import KEYS, load_settings

TRACE = next(path for path in SAMPLES if path.name == "resnet50_train.json.gz")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a folder in it, where commands run, and a user's configuration."""
    (tmp_path / "config" / "warplens").mkdir(parents=True)
    (tmp_path / "project" / "deep" / "below").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path / "project" / "deep" / "below")
    return tmp_path


def user(home: Path, text: str) -> Path:
    path = home / "config" / "warplens" / "config.toml"
    path.write_text(text)
    return path


def project(home: Path, text: str) -> Path:
    path = home / "project" / "warplens.toml"
    path.write_text(text)
    return path


def test_without_files_everything_is_the_default(home: Path) -> None:
    assert {name: (setting.value, setting.origin) for name, setting in load_settings().items()} == {
        key.name: (key.default, "default") for key in KEYS
    }


def test_the_project_wins_over_the_user_key_by_key(home: Path) -> None:
    of_user = user(home, 'gap = "5us"\ntheme = "dark"\n')
    of_project = project(home, 'gap = "20us"\n')
    settings = load_settings()
    assert (settings["gap"].value, settings["gap"].origin) == ("20us", str(of_project))
    assert (settings["theme"].value, settings["theme"].origin) == ("dark", str(of_user))


def test_the_nearest_file_of_the_project_counts(home: Path) -> None:
    project(home, 'gap = "20us"\n')
    nearest = home / "project" / "deep" / "warplens.toml"
    nearest.write_text('theme = "light"\n')
    settings = load_settings()
    assert settings["theme"].origin == str(nearest)
    assert settings["gap"].origin == "default"


def test_the_command_line_wins(home: Path) -> None:
    project(home, 'gap = "20us"\ngpu = "A100"\nrules = "mine.toml"\n')
    args = argparse.Namespace(gap="1us", gpu="", gpu_file="card.toml", rules=[])
    apply_settings(args)
    assert args == argparse.Namespace(
        gap="1us", gpu="", gpu_file="card.toml", rules=[str(home / "project" / "mine.toml")]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "gap = 5": "gap is not a duration",
        'gap = "5"': "gap is not a duration",
        "gpu = 1": "gpu is not the name of a GPU",
        'theme = "blue"': 'theme is not "light" or "dark"',
        "rules = [1]": "rules is not a path or a list of paths",
        "[gap]": "gap is not a duration",
        'gaps = "5us"': "unknown key 'gaps'",
        "gap = ": "not valid TOML: Invalid value",
        f"gap = {'9' * 5000}": "not valid TOML",
        "x" * 3 + " = [" * 3: "not valid TOML",
    }.items(),
)
def test_a_file_that_is_wrong_is_one_line_with_its_name(home: Path, text: str, message: str, capsys: Captured) -> None:
    for path in (user(home, text), project(home, text)):
        assert main(["show", str(TRACE), "kernels"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        first = captured.err.splitlines()[0]
        assert first.startswith(f"error: {path}: {message}")
        user(home, "")


def test_a_broken_file_does_not_stop_verbs_that_have_no_settings(home: Path, capsys: Captured) -> None:
    project(home, "gap = ")
    assert main(["explain", "idle"]) == 0


def test_settings_change_what_verbs_show(home: Path, capsys: Captured) -> None:
    (home / "project" / "mine.toml").write_text('[[rule]]\ncategory = "Mine"\ncontains = "elementwise"\n')
    project(home, 'rules = ["mine.toml"]\ngap = "123us"\n')
    assert main(["show", str(TRACE), "kernel_categories", "--json"]) == 0
    assert "Mine" in {row["kernel_category"] for row in json.loads(capsys.readouterr().out)}
    assert main(["show", str(TRACE), "gaps"]) == 0
    assert "gaps of at least 123.0 µs" in capsys.readouterr().out
    assert main(["show", str(TRACE), "gaps", "--gap", "45us"]) == 0
    assert "gaps of at least 45.00 µs" in capsys.readouterr().out


def test_explain_shows_every_value_and_where_it_comes_from(home: Path, capsys: Captured) -> None:
    path = project(home, 'gpu = "H100 SXM"\n')
    assert main(["explain", "config", "--json"]) == 0
    rows = {row["name"]: row["meaning"] for row in json.loads(capsys.readouterr().out)}
    assert rows["gpu"].startswith(f"H100 SXM [{path}]")
    assert rows["gap"].startswith("10us [default]")
    assert rows["project's file"] == str(path)
    assert set(rows) >= {key.name for key in KEYS}


def test_a_theme_is_that_of_pages_and_pictures(home: Path, tmp_path: Path) -> None:
    user(home, 'theme = "dark"\n')
    assert main(["report", str(TRACE), "-q", "-o", f"{tmp_path}/r.html"]) == 0
    assert '<html lang="en" data-chosen="dark">' in (tmp_path / "r.html").read_text()
    assert main(["flamegraph", str(TRACE), "-o", f"{tmp_path}/dark.svg"]) == 0
    assert main(["flamegraph", str(TRACE), "-o", f"{tmp_path}/light.svg", "--theme", "light"]) == 0
    dark, light = ((tmp_path / f"{name}.svg").read_text() for name in ("dark", "light"))
    assert 'fill="#16181D"' in dark
    assert 'fill="#FFFFFF"' in light
    assert "#16181D" not in light


def test_a_page_without_a_theme_leaves_it_to_the_browser(home: Path, tmp_path: Path) -> None:
    assert main(["report", str(TRACE), "-q", "-o", f"{tmp_path}/r.html"]) == 0
    assert "data-chosen=" not in (tmp_path / "r.html").read_text().split("<script", 1)[0]
