"""One value out of a long text: as the standard library reads it, in time by the value and not by the text."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from warplens.readers.shared import json_value
from warplens.readers.shared.json_value import value_at

LEAVES: tuple[Any, ...] = (1, -2.5e300, 10**30, True, None, "", "a\"\\\n\u00fc", "\U0001f600\ud83d", float("nan"), float("-inf"))  # fmt: skip


def some_value(rng: Random, depth: int = 0) -> Any:
    if depth > 3 or rng.random() < 0.4:
        return rng.choice(LEAVES)
    values = [some_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return values if rng.random() < 0.5 else {str(number): value for number, value in enumerate(values)}


@pytest.mark.parametrize("reach", [1, 3, 4096])
def test_a_value_is_the_one_of_the_standard_library_wherever_the_part_ends(
    reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_value, "FIRST_REACH", reach)
    monkeypatch.setattr(json_value, "FURTHER", 2)
    rng = Random(1)
    for _ in range(300):
        text = json.dumps([some_value(rng)], ensure_ascii=rng.random() < 0.5)[1:-1]
        whole = f"[{text},{text}]"
        for cut in (whole, whole[: rng.randrange(1, len(whole))]):
            assert outcome(value_at, cut) == outcome(json.JSONDecoder().raw_decode, cut)


def outcome(read: Callable[[str, int], tuple[object, int]], text: str) -> str:
    try:
        return repr(read(text, 1))
    except json.JSONDecodeError as error:
        return error.msg


def test_an_error_is_looked_for_in_a_small_part_of_the_text() -> None:
    """The standard library counts the lines of all that it is given."""
    text = "\n" * 1_000_000 + "{x" + " " * 1_000_000
    with pytest.raises(json.JSONDecodeError) as caught:
        value_at(text, 1_000_000)
    assert len(caught.value.doc) == json_value.FIRST_REACH
