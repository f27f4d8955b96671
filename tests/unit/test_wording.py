"""Advice fits the framework: a profile of JAX, Triton or a ROCm program is told nothing that only PyTorch can do."""

from __future__ import annotations

import re

import pytest

from finding_traces import GEMM, waits
from support import Opened, kernel
from warplens.advice import NEEDED_TABLES, RULES, find
from warplens.advice.rank_rules import JOB_RULES
from warplens.advice.wording import ANY, FRAMEWORKS, WORDS, words

OF_TORCH = re.compile(
    r"torch|pin_memory|non_blocking|channels_last|autocast|DataLoader|DDP|\.cpu\(\)|is_causal|F\.gelu|fused=True"
)
FORMATS = ("kineto", "xplane", "tensorflow", "xla_json", "proton", "rocprofv3", "rocpd", "nsys", "chrome")


@pytest.mark.parametrize("format", [format for format in FORMATS if format != "kineto"])
def test_no_other_profile_gets_advice_for_pytorch(format: str) -> None:
    for topic in WORDS:
        assert not OF_TORCH.search(words(topic, format)), topic


@pytest.mark.parametrize("format", [format for format in FORMATS if not format.startswith("x")])
def test_no_other_profile_gets_advice_for_jax(format: str) -> None:
    for topic in WORDS:
        assert not re.search(r"jax\.|jit|HLO", words(topic, format)), topic


def test_every_finding_has_words_and_every_topic_some_for_any_program() -> None:
    assert {topic.split()[0] for topic in WORDS} == {*RULES.codes, *JOB_RULES.codes}
    assert all(spoken.get(ANY) for spoken in WORDS.values())


def test_the_nearest_speaker_speaks() -> None:
    speakers = {"unknown format": ANY, "nsys": "nsys", "kineto": "torch", "xplane": "jax", "xla_json": "jax"}
    for format, speaker in speakers.items():
        assert words("WL109 unknown", format) == WORDS["WL109 unknown"][speaker]
    assert set(FRAMEWORKS.values()) == {"torch", "jax"}


def test_a_finding_speaks_for_the_format_of_its_profile(opened: Opened) -> None:
    """The same gaps, as if each profiler had recorded them."""
    profile = opened(waits([40, 60], dur=300))
    tables = {name: profile.table(name) for name in NEEDED_TABLES}
    (torch,), (jax,), (other,) = (find(tables, format=format) for format in ("kineto", "xplane", "rocpd"))
    assert torch.code == jax.code == other.code == "WL101"
    assert torch.gain_ms == jax.gain_ms == other.gain_ms
    assert ("torch.compile" in torch.advice, "jax.jit" in jax.advice, "HIP graph" in other.advice) == (True, True, True)
    assert [found.advice for found in find(tables)] == [torch.advice]


def test_idle_time_without_launches_says_how_to_record_them(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 0, 50), kernel(GEMM, 150, 50)])
    tables = {name: profile.table(name) for name in NEEDED_TABLES}
    (finding,) = find(tables, format="rocprofv3")
    assert (finding.code, finding.place) == ("WL109", "")
    assert finding.title == "GPU idle: what the host did is not recorded"
    assert "rocprofv3 --hip-trace" in finding.advice
    assert profile.table("gaps").frame["host_activity"].to_list() == ["(no launch recorded)"]
