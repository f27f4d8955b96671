"""Very many kernel names: those that differ only in their numbers are classified once."""

from __future__ import annotations

import random
from typing import Any

import pytest

import warplens
from support import SAMPLES, Opened, kernel
from warplens import native_library
from warplens.categories import families, load_categorizer, matching, short_names
from warplens.categories.families import families_of, without_numbers

NUMBERED = [f"triton_poi_fused_{number}" for number in range(50)] + [f"ampere_bf16_s16816gemm_{n}" for n in range(50)]


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "MANY_NAMES", 20)


def test_few_names_are_families_of_their_own() -> None:
    assert list(families_of(NUMBERED)) == NUMBERED
    assert short_names(NUMBERED)[7] == "triton poi #7"


def test_many_names_have_the_class_that_each_would_have_alone(few_are_many: None) -> None:
    assert len(set(families_of(NUMBERED))) == 2
    categorizer = load_categorizer()
    assert categorizer.classify_all(NUMBERED) == [categorizer.classify(name) for name in NUMBERED]


def test_each_family_is_matched_once(few_are_many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[str] = []
    real = matching.parse_kernel_name
    monkeypatch.setattr(matching, "parse_kernel_name", lambda name: matched.append(name) or real(name))
    load_categorizer().classify_all(NUMBERED)
    assert matched == ["triton_poi_fused_0", "ampere_bf16_s16816gemm_0"]


@pytest.mark.skipif(native_library.library() is None, reason="the native library is not built here")
def test_both_readers_of_names_find_the_same_families(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = random.Random(1)
    names = ["".join(letters.choices("aZ_<# 0123456789", k=letters.randrange(12))) for _ in range(5_000)]
    names += ["", "7", "x12345", "x123456", "x1234567y", "bf16_64x64", "-5-6"]
    natively = without_numbers(names)
    monkeypatch.setenv(native_library.SWITCH, "0")
    assert natively == without_numbers(names)


def test_names_of_other_letters_and_lines_have_families_too() -> None:
    assert without_numbers(["größe_7", "\u0663\u0664", "a"]) == ["größe_#", "#", "a"]
    assert without_numbers(["two\nlines 7", "b_8"]) == ["two\nlines #", "b_#"]


def test_rules_of_the_user_see_every_name(few_are_many: None) -> None:
    rule = warplens.Rule("Mine", pattern="fused_7$")
    classes = load_categorizer([], [rule]).classify_all(NUMBERED)
    assert [row for row, kernel_class in enumerate(classes) if kernel_class.category == "Mine"] == [7]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_samples_have_the_same_categories_by_families(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = warplens.open(sample).table("kernel_categories").frame.rows()
    monkeypatch.setattr(families, "MANY_NAMES", 0)
    assert warplens.open(sample).table("kernel_categories").frame.rows() == alone


def test_every_name_keeps_its_row(few_are_many: None, opened: Opened) -> None:
    profile = opened([kernel(name, 10 * row, 5) for row, name in enumerate(NUMBERED)])
    kernels = profile.table("kernels").frame
    assert sorted(kernels["kernel"]) == sorted(NUMBERED)
    assert set(kernels["kernel_short"]) == {"triton_poi_fused_#", "ampere_bf16_s16816gemm_#"}
