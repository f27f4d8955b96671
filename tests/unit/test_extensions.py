"""Readers and rules that another installed package brings along: found when they are needed, and by no other run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import warplens
from support import ROOT
from warplens import extensions
from warplens.cli import main
from warplens_run.base.errors import FormatError

TRACE = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
CODE = '''
from warplens.advice.figures import TraceFigures
from warplens.model.builder import TraceBuilder
from warplens.model.finding import Finding
from warplens.model.rule import Explanation, RuleSet, Thresholds
from warplens.readers.registry import ProfileFormat


def read(text, meta, notes):
    """Lines of a name, a start and a duration in ns."""
    builder = TraceBuilder()
    lane = builder.add_lane("GPU 0", "stream 7")
    for line in text.decode().splitlines()[1:]:
        name, start, duration = line.split()
        builder.add("kernel", name, int(start), int(duration), lane=lane, device=0, stream=7)
    return builder.build(meta, notes)


FORMAT = ProfileFormat("a list of kernels", lambda head: head.startswith(b"KERNELS"), "acme_ext:read")


def small(figures):
    yield figures.finding("ACME1", title="a house rule", place="everywhere", evidence="what was seen", gain_ms=5.0, advice="do it")


RULES = RuleSet({"ACME1": small}, {"ACME1": Explanation("A house rule", "What it means.")}, Thresholds())
OURS = RuleSet({"WL101": small}, {"WL101": Explanation("Taken", "Taken.")}, Thresholds())
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Installs a package `acme` with these entry points, in a folder of packages of its own."""
    packages = tmp_path / "site-packages"
    (packages / "acme-1.2.dist-info").mkdir(parents=True)
    (packages / "acme_ext.py").write_text(CODE)
    (packages / "acme-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2\n")
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    monkeypatch.delitem(sys.modules, "acme_ext", raising=False)

    def write(**places: str) -> None:
        sections = (f"[warplens.{group}]\nacme = {place}\n" for group, place in places.items())
        (packages / "acme-1.2.dist-info" / "entry_points.txt").write_text("".join(sections))

    return write


def test_a_file_that_is_not_known_is_read_by_the_reader_of_another_package(install, tmp_path: Path) -> None:
    install(readers="acme_ext:FORMAT")
    file = tmp_path / "kernels.txt"
    file.write_text("KERNELS\nsgemm 1000 500\nrelu 2000 100\n")
    for _ in range(2):  # nothing of it is kept
        profile = warplens.open(file)
        assert profile.table("kernels").to_polars()["kernel"].to_list() == ["sgemm", "relu"]
        assert profile.meta.facts["reader"] == "acme 1.2"
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == [extensions.LIST]


def test_rules_of_another_package_are_findings_and_are_explained(install, capsys: pytest.CaptureFixture[str]) -> None:
    install(rules="acme_ext:RULES")
    profile = warplens.open(TRACE, cache=False)
    (finding,) = (finding for finding in profile.findings() if finding.code == "ACME1")
    assert (finding.title, finding.gain_ms) == ("a house rule", 5.0)
    assert profile.document().extras().explanations["ACME1"] == "A house rule. What it means."
    assert main(["explain", "acme1"]) == 0
    assert "ACME1: A house rule. What it means." in capsys.readouterr().out
    assert main(["explain"]) == 0
    assert "finding codes of acme 1.2: ACME1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("acme_ext:MISSING", "AttributeError"),
        ("no_such_module:RULES", "ModuleNotFoundError"),
        ("acme_ext:FORMAT", "not a RuleSet"),
        ("acme_ext:OURS", "WL101: codes of other rules"),
    ],
)
def test_rules_that_cannot_be_used_are_a_warning(install, place: str, reason: str) -> None:
    install(rules=place)
    with pytest.warns(RuntimeWarning, match=rf"{place} of acme 1.2 is not used: .*{reason}"):
        findings = warplens.open(TRACE, cache=False).findings()
    assert "ACME1" not in [finding.code for finding in findings]


def test_the_list_is_made_anew_when_packages_were_installed(
    install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(rules="acme_ext:RULES")
    assert [each.package for each in extensions.offered(extensions.RULES)] == ["acme 1.2"]
    with monkeypatch.context() as patched:
        patched.setattr(extensions, "_looked_for", lambda folders: pytest.fail("the list was kept"))
        assert len(extensions.offered(extensions.RULES)) == 1
    (tmp_path / "site-packages" / "acme-1.2.dist-info").rename(tmp_path / "gone")
    assert extensions.offered(extensions.RULES) == []


def test_without_a_reader_the_file_is_one_that_is_not_known(install, tmp_path: Path) -> None:
    install(rules="acme_ext:RULES")
    (tmp_path / "kernels.txt").write_text("KERNELS\nsgemm 1000 500\n")
    with pytest.raises(FormatError, match="not a known profile format"):
        warplens.open(tmp_path / "kernels.txt")


def test_nothing_is_looked_for_at_start() -> None:
    code = "from warplens.cli import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=False)
    assert "argparse" in done.stderr
    assert "warplens.extensions" not in done.stderr
