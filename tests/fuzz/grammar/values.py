"""The combinators that grammars are built of: values that may be wrong, repeated, shared, long or deep."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from mutations import WRONG_VALUES

T = TypeVar("T")
RATES: Final = (0.0, 0.002, 0.01, 0.03, 0.15)
"""The share of the values of a file that lie."""
SIZES: Final = ((0, 3), (1, 12), (1, 12), (5, 60), (100, 400))
"""How many entries a file's lists have."""
NAMES: Final = (
    *("void at::native::vectorized_elementwise_kernel<4, add>(int, float)", "ampere_sgemm_128x64_tn", "Memcpy HtoD"),
    *(
        "aten::mm",
        "aten::addmm",
        "aten::copy_",
        "train.py(12): step",
        "nn.Module: Linear_0",
        "ProfilerStep#3",
        "forward",
    ),
    *(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "cudaLaunchKernel",
        "cudaGraphLaunch",
        "triton_poi_fused_add_0",
        "jit_step",
    ),
)
LONG_PARTS: Final = (
    "_",
    "a",
    "<",
    "::",
    "(",
    "1",
    " ",
    "a,",
    "%",
    "\u00e9",
    "\U0001f600",
    ".",
    "/",
    "ab ",
    "[",
    "-",
    "\t",
    "x1",
)
ODD_TEXTS: Final = (
    *(
        "",
        " ",
        "\0",
        "\ud800",
        "a\udfffb",
        "\x1b[31mred\x1b[0m",
        "a\r\nb",
        "\u202eabc",
        "\x9b2J",
        "x" * 5000,
        "=1+1",
        "NaN",
        "²",
        "9" * 5000,
    ),
    *(
        "-0",
        "1e999",
        "</script><script>",
        "../../x",
        "'; drop table x; --",
        "%s%n",
        "{0}",
        "[[[",
        "\ufeff",
        "ÿ",
        "nan",
        "None",
    ),
)
HUGE_WHOLE: Final = (
    2**31,
    2**32,
    2**53 + 1,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    10**30,
    -1,
    -(2**31),
    -(2**63),
    -(2**63) - 1,
    0,
)
HUGE_TIMES: Final = (0, -1, 1e-9, 1e15, 4e15, 9e15, 9.3e18, 1e19, 1e300, -1e300, 2**63, 1.5, 1e12, math.nan, math.inf)
TOKENS: Final = (
    "9" * 400,
    "9" * 5000,
    "-" + "9" * 20,
    "1e400",
    "-1e400",
    "1E-400",
    "0." + "3" * 400,
    "-0",
    "[" * 600 + "]" * 600,
    "[" * 40_000,
)
"""Of JSON: what no value of Python is written as."""
TOKEN: Final = re.compile(r'"\\ue000(\d+)\\ue001"')
TWICE: Final = re.compile(r"\\ue002\d+")


@dataclass
class Case:
    """The files of one test by name, in folders where a name has slashes; `options` may name them as `{name}`."""

    files: dict[str, bytes]
    opened: str
    options: tuple[str, ...] = ()
    verbs: str = "trace"
    """Which commands take it: see `commands`."""


@dataclass
class Hostile:
    """Values for one file; `rate` and `size` hold for all of it."""

    rng: Random
    rate: float = field(init=False)
    size: tuple[int, int] = field(init=False)
    names: list[str] = field(init=False)
    entries_left: int = 20_000
    """Lists within lists multiply; what is made at length takes no longer than what is read."""
    text_left: int = 1_000_000

    def __post_init__(self) -> None:
        self.rate = self.rng.choice(RATES)
        self.size = self.rng.choice(SIZES)
        kept = self.rng.sample(NAMES, self.rng.randint(1, 8))
        self.names = [*kept, *(self.odd_text() for _ in range(3) if self.chance(0.3))]

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def lies(self) -> bool:
        return self.rng.random() < self.rate

    def one(self, *values: T) -> T:
        return self.rng.choice(values)

    def maybe_wrong(self, value: Any) -> Any:
        """The value, or one of another type or size."""
        if not self.lies():
            return value
        kind = self.rng.randrange(6)
        if kind in (3, 4) and isinstance(value, (dict, list)):
            return [value] if kind == 3 else {"name": value}
        if kind == 0:
            return self.token()
        if kind == 1:
            return self.odd_text()
        if kind == 2:
            return self.one(*HUGE_WHOLE)
        if kind == 3:
            return [value] * self.count(0, self.one(0, 1, 2, 100))
        if kind == 4:
            return {"name": value, "value": value}
        return self.one(*WRONG_VALUES)

    def whole(self, low: int = 0, high: int = 10) -> Any:
        return self.maybe_wrong(self.one(*HUGE_WHOLE) if self.lies() else self.rng.randint(low, high))

    def real(self, low: float = 0.0, high: float = 1.0) -> Any:
        return self.maybe_wrong(self.one(*HUGE_TIMES) if self.lies() else self.rng.uniform(low, high))

    def text(self, *usual: str) -> Any:
        """One of the usual texts, else one of the few names that this file repeats."""
        return self.maybe_wrong(self.odd_text() if self.lies() else self.rng.choice(usual or self.names))

    def token(self) -> str:
        """A value that `json` writes as one of `TOKENS`; for other formats it is an odd text."""
        number = self.rng.randrange(len(TOKENS))
        self.text_left -= len(TOKENS[number])
        return f"\ue000{number if self.text_left > 0 else 0}\ue001"

    def odd_text(self) -> str:
        return self.long_text() if self.chance(0.3) else self.one(*ODD_TEXTS)

    def long_text(self, most: int = 60_000) -> str:
        parts = self.rng.choices(LONG_PARTS, k=self.rng.choice((1, 1, 2, 3)))
        length = min(self.rng.choice((300, 5_000, most)), self.text_left)
        self.text_left -= length
        return self.one("", "aten::", "void ", "Memcpy ") + "".join(parts) * (length // len(parts))

    def count(self, low: int | None = None, high: int | None = None) -> int:
        low, high = self.size[0] if low is None else low, self.size[1] if high is None else high
        drawn = min(self.rng.randint(low, max(low, high)), max(low, self.entries_left))
        self.entries_left -= drawn
        return drawn

    def repeat(self, make: Callable[[int], T], count: int | None = None) -> list[T]:
        """A list of entries; now and then one of them, or a part of the list, is there several times."""
        entries = [make(number) for number in range(self.count() if count is None else count)]
        if entries and self.lies() and self.entries_left > 0:
            entries += [self.rng.choice(entries)] * self.count(1, self.one(1, 10, 300))
        if entries and self.lies():
            self.rng.shuffle(entries)
        return entries

    def fields(self, **values: Any) -> dict[str, Any]:
        """A record, whose fields may be missing, twice there, of other names, or wrong."""
        record = {name: self.maybe_wrong(value) for name, value in values.items()}
        if record and self.lies():
            name = self.rng.choice(list(record))
            change = self.rng.randrange(4)
            if change == 0:
                del record[name]
            elif change == 1:
                record[f"{name}\ue0027"] = self.maybe_wrong(self.one(record[name], None, self.odd_text()))
            elif change == 2:
                record[self.odd_text()] = record.pop(name)
            else:
                record |= {f"x{number}": record[name] for number in range(self.count(1, self.one(1, 30, 1000)))}
        return record

    def echo(self, value: Any) -> Any:
        """A sound document with lies in it, at any depth."""
        if isinstance(value, dict):
            return self.fields(**{name: self.echo(inner) for name, inner in value.items()})
        if isinstance(value, list):
            return self.repeat(lambda at: self.echo(value[at]), len(value))
        if isinstance(value, str) and self.lies():
            return self.odd_text()
        if isinstance(value, (int, float)) and self.lies():
            return self.one(*HUGE_WHOLE, *HUGE_TIMES, -value, value * 10**9)
        return value

    def numbered(self, count: int) -> int:
        """The number of one of so many entries; one beyond them where it lies."""
        return self.one(-1, count, 2**31, 2**63) if self.lies() or not count else self.rng.randrange(count)

    def json(self, value: Any) -> bytes:
        """The text of a value in which tokens and keys that are there twice become what they stand for."""
        indent = 1 if self.chance(0.1) else None
        text = json.dumps(value, indent=indent, separators=(",", ":") if self.chance(0.5) else None)
        text = TWICE.sub("", TOKEN.sub(lambda match: TOKENS[int(match[1])], text))
        if self.lies():
            text = self.one("\ufeff", " " * 5000, "\n\t\r ", "/* */") + text
        if self.lies():
            text = text[: self.rng.randrange(len(text) + 1)]
        return text.encode("utf-8", "surrogatepass")

    def packed(self, content: bytes) -> bytes:
        kind = self.rng.randrange(8)
        if kind == 0:
            return zipped({self.one("trace.json", "x", "a/b.json"): content})
        if kind == 1:
            half = len(content) // 2
            return gzip.compress(content[:half], mtime=0) + gzip.compress(content[half:], mtime=0)
        return gzip.compress(content, mtime=0) if kind < 4 else content


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def plain(value: Any, *, whole_bits: int = 0, with_surrogates: bool = True) -> Any:
    """A value as other formats than JSON can hold it: keys that are there twice are one, numbers fit."""
    if isinstance(value, dict):
        return {
            plain(TWICE_IN_PLAIN.sub("", key), with_surrogates=with_surrogates): plain(
                inner, whole_bits=whole_bits, with_surrogates=with_surrogates
            )
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(inner, whole_bits=whole_bits, with_surrogates=with_surrogates) for inner in value]
    if isinstance(value, str) and not with_surrogates:
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and whole_bits and not -(1 << whole_bits - 1) <= value < 1 << whole_bits:
        return (1 << whole_bits - 1) - 1
    return value


TWICE_IN_PLAIN: Final = re.compile("\ue002\\d+")


def shuffled(rng: Random, values: Sequence[T]) -> list[T]:
    return rng.sample(list(values), len(values))
