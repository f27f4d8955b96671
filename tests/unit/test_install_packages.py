"""What uv is told of pip's settings, so that both install the same."""

from __future__ import annotations

import pytest

from install_packages import options, settings, settings_of_pip

LISTED = """\
:env:.cert='/certificates.crt'
:env:.find-links='/wheels'
freeze.timeout='10'
global.cert='/other.crt'
global.extra-index-url='\\nfile:///first/simple\\nfile:///second/simple'
install.find-links='/elsewhere'
"""


def test_the_environment_s_word_is_pip_s_last() -> None:
    told = settings(LISTED)
    assert told == {
        "cert": "/certificates.crt",
        "extra-index-url": "\nfile:///first/simple\nfile:///second/simple",
        "find-links": "/wheels",
    }


def test_every_place_is_an_option_of_its_own() -> None:
    best = ["--index-strategy", "unsafe-best-match"]
    places = ["--index", "file:///first/simple", "--index", "file:///second/simple", "--find-links", "/wheels"]
    assert options(settings(LISTED)) == [*best, *places]
    assert options({}) == best
    assert options({"no-index": "true", "index-url": "https://here/simple"}) == [
        *best, "--default-index", "https://here/simple", "--no-index",
    ]  # fmt: skip


def test_pip_without_settings_gives_none() -> None:
    assert settings("") == {}


def test_pip_is_asked_for_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels /more")
    assert settings_of_pip()["find-links"] == "/wheels /more"
