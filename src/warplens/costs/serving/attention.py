"""Attention over requests of different lengths, with their keys and values in a paged cache.

The shapes of such a call have the heads and widths, not the lengths. Those come from the mark of the iteration around
the call, or from numbers among its arguments; where neither has them there is no cost.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from warplens.costs.attention import AttentionOp
from warplens.costs.cost import MATRIX, NO_LENGTHS, OTHER_ARGUMENTS, Cost
from warplens.costs.lengths import (
    AT_MOST,
    BOTH,
    CONTEXT,
    FROM_MARK,
    GENERATION,
    Lengths,
    lengths_by_longest,
    lengths_by_mark,
)
from warplens.costs.tensors import ITEM_BYTES, WHOLE_NUMBER, Call, Tensor, product

FAMILY: Final = "attention"
NO_WINDOW: Final = "whether the layer has a sliding window is not recorded; without one"
CACHE_TYPE: Final = "the cache is taken to have the keys' element type"
WINDOWED: Final = "at most: requests are taken to be longer than the sliding window"
FLAGS: Final = ("True", "False", "true", "false")

HEADS_BEFORE_WIDTH: Final = "nhd"
"""(pages, places, heads, width), or (tokens, heads, width)."""
HEADS_AFTER_PAGES: Final = "hnd"
"""(pages, heads, …): how width and places follow differs; the width is that of the queries."""
LATENT: Final = "latent"
"""(…, width): one head whose values are the first part of its keys (multi-head latent attention)."""


class Heads(NamedTuple):
    """Heads and widths of one call."""

    query: int
    key: int
    width: int
    value_width: int
    shared: bool = False
    """Values are a part of the keys: both are read once."""

    @property
    def key_elements(self) -> int:
        """Elements of the cache per key."""
        return self.key * (self.width if self.shared else self.width + self.value_width)


class Numbers(NamedTuple):
    """Plain arguments of FlashAttention's ops, which stand in the same order in all their versions."""

    longest_keys: int = 0
    causal: bool | None = None
    window: int = -1


def flash_numbers(call: Call) -> Numbers:
    """The longest query and key lengths are the first two whole numbers in a row; two more follow the causal flag."""
    texts = [call.text(argument) for argument in range(len(call.args))]
    is_number = [bool(WHOLE_NUMBER.fullmatch(text)) for text in texts]
    pairs = [place for place in range(len(texts) - 1) if is_number[place] and is_number[place + 1]]
    causal = [place for place in pairs if place and texts[place - 1] in FLAGS]
    longest = int(texts[pairs[0] + 1]) if pairs and pairs[0] not in causal else 0
    if not causal:
        return Numbers(longest)
    return Numbers(longest, texts[causal[0] - 1].lower() == "true", int(texts[causal[0]]))


class ServedAttention(Struct, frozen=True):
    """Which arguments are which; `keys` and `values` are the cache or the new tokens: heads and widths matter."""

    q: int = 0
    keys: int = 1
    values: int | None = 2
    layout: str = HEADS_BEFORE_WIDTH
    part: str = BOTH
    """Which requests of a mixed iteration the op works on."""
    requests: int | None = None
    """A tensor with one element per request."""
    ends: int | None = None
    """A tensor with the ends of the requests, one more element than requests."""
    longest: int | None = None
    is_cache: bool = True
    """False where the op is handed the new keys only, and reads the rest from a cache that is not among them."""
    out: int | None = None
    value_width: int | None = None
    """Argument that holds the width of the values."""
    q_rest: int | None = None
    """The part of the queries that carries the positions, where it is a tensor of its own."""
    flash: bool = False
    """FlashAttention's arguments: cached where the keys have four dimensions, packed where they have three."""
    otherwise: AttentionOp | None = None
    """The cost of a call without a cache that no mark fits."""

    def cost(self, call: Call) -> Cost | str | None:
        q, keys = call.tensor(self.q), call.tensor(self.keys)
        if q is None or keys is None:
            return None
        is_packed = (self.flash and len(keys.shape) == 3) or (self.flash and call.tensor(self.ends) is None)
        heads = self._heads(call, q, keys)
        if heads is None:
            return OTHER_ARGUMENTS
        queries = q.numel // max(1, q.shape[-1] if len(q.shape) == 2 else q.shape[-1] * q.shape[-2])
        lengths = lengths_by_mark(call.mark, queries, self.part)
        if is_packed and (lengths is None or lengths.keys != keys.shape[0]):
            return self.otherwise.cost(call) if self.otherwise is not None else NO_LENGTHS
        numbers = flash_numbers(call) if self.flash else Numbers(call.integer(self.longest))
        lengths = lengths or self._recorded(call, q, queries, numbers)
        if lengths is None:
            return NO_LENGTHS
        return self._cost(call, q, keys, heads, lengths, numbers)

    def _recorded(self, call: Call, q: Tensor, queries: int, numbers: Numbers) -> Lengths | None:
        """From the call's own numbers; those of a captured call are the capture's."""
        lengths, ends = call.tensor(self.requests), call.tensor(self.ends)
        requests = lengths.numel if lengths else ends.numel - 1 if ends else q.shape[0] if len(q.shape) == 4 else 0
        if call.replayed or not numbers.longest_keys:
            return None
        return lengths_by_longest(requests, queries, numbers.longest_keys)

    def _heads(self, call: Call, q: Tensor, keys: Tensor) -> Heads | None:
        values, rest = call.tensor(self.values), call.tensor(self.q_rest)
        width = q.shape[-1] if len(q.shape) >= 3 else keys.shape[-1] if len(keys.shape) >= 3 else 0
        if not width or len(q.shape) not in (2, 3, 4):
            return None
        query_heads = q.shape[-2] if len(q.shape) >= 3 else q.shape[-1] // width
        width += rest.shape[-1] if rest is not None and rest.shape else 0
        if self.layout == LATENT:
            value_width = call.integer(self.value_width) or (q.shape[-1] if rest else 0)
            out = call.tensor(self.out)
            value_width = value_width or (out.shape[-1] if out and len(out.shape) >= 3 else 0)
            fits = len(keys.shape) >= 3 and keys.shape[-1] == width and 0 < value_width <= width
            return Heads(query_heads, 1, width, value_width, shared=True) if fits else None
        place = -2 if self.layout == HEADS_BEFORE_WIDTH else 1
        if len(keys.shape) == 5:  # (pages, heads, width / x, places, x)
            place = 1
        if len(keys.shape) < 3 or not keys.shape[place] or query_heads % keys.shape[place]:
            return None
        is_plain = place == -2 and values is not None and len(values.shape) >= 3
        return Heads(query_heads, keys.shape[place], width, values.shape[-1] if is_plain and values else width)

    def _cost(self, call: Call, q: Tensor, keys: Tensor, heads: Heads, lengths: Lengths, numbers: Numbers) -> Cost:
        notes = [lengths.approximate] if lengths.approximate else []
        causal = numbers.causal is not False
        pairs, key_count = lengths.causal_pairs if causal else lengths.all_pairs, lengths.keys
        if causal and numbers.window >= 0:
            pairs, key_count = within_window(lengths, numbers.window)
            notes += [WINDOWED] if pairs < lengths.causal_pairs else []
        cache_item = keys.item_bytes
        if not self.is_cache:
            notes.append(NO_WINDOW)
            notes += [] if call.cache_dtype else [CACHE_TYPE]
            cache_item = ITEM_BYTES.get(call.cache_dtype, cache_item)
        out = call.tensor(self.out)
        moved = lengths.queries * heads.query * heads.width * q.item_bytes
        moved += key_count * heads.key_elements * cache_item
        moved += lengths.queries * heads.query * heads.value_width * (out or q).item_bytes
        flop = pairs * heads.query * 2 * (heads.width + heads.value_width)
        params = served_params(heads, lengths, "causal" if causal else "none", numbers.window)
        return Cost(FAMILY, flop, moved, q.dtype, MATRIX, params, "; ".join(notes), lengths.approximate == AT_MOST)


def within_window(lengths: Lengths, window: int) -> tuple[float, int]:
    """Pairs and keys where a query sees itself and `window` keys before it; an upper bound for short requests."""
    pairs = min(lengths.causal_pairs, float(lengths.queries * (window + 1)))
    return pairs, min(lengths.keys, lengths.queries + lengths.requests * window)


def served_params(heads: Heads, lengths: Lengths, mask: str, window: int = -1) -> tuple[tuple[str, int | str], ...]:
    return (
        ("requests", lengths.requests), ("Hq", heads.query), ("Hkv", heads.key), ("queries", lengths.queries),
        ("keys", lengths.keys), ("D", heads.width), ("Dv", heads.value_width), ("mask", mask),
        *((("window", window),) if window >= 0 else ()), ("pass", "forward"), ("lengths", lengths.source),
    )  # fmt: skip


class LatentAttention(Struct, frozen=True):
    """A whole layer of multi-head latent attention: prompts on keys that are projected up, the rest on the latents.

    The projections are ops of their own inside it.
    """

    q: int = 0
    latent: int = 1
    rope: int = 2
    out: int = 3

    def cost(self, call: Call) -> Cost | str | None:
        q, latent, rope, out = (call.tensor(argument) for argument in (self.q, self.latent, self.rope, self.out))
        if q is None or latent is None or rope is None:
            return None
        if len(q.shape) != 3 or len(latent.shape) != 2 or not rope.shape:
            return OTHER_ARGUMENTS
        heads, width = q.shape[1], q.shape[2]
        value_width = product(out.shape[1:]) // max(1, heads) if out else width - rope.shape[-1]
        parts = [lengths_by_mark(call.mark, q.shape[0], part) for part in (CONTEXT, GENERATION)]
        whole = lengths_by_mark(call.mark, q.shape[0])
        if whole is None or sum(part.queries for part in parts if part) != whole.queries:
            return NO_LENGTHS
        item = ITEM_BYTES.get(call.cache_dtype, latent.item_bytes)
        wide = latent.shape[1] + rope.shape[-1]
        kinds = (Heads(heads, heads, width, value_width), Heads(heads, 1, wide, latent.shape[1], shared=True))
        flop = moved = 0.0
        for part, kind, key_item in zip(parts, kinds, (q.item_bytes, item), strict=True):
            if part is not None:
                flop += part.causal_pairs * heads * 2 * (kind.width + kind.value_width)
                moved += part.keys * kind.key_elements * key_item
        moved += whole.queries * heads * (width + value_width) * q.item_bytes
        note = "; ".join(filter(None, (whole.approximate, "" if call.cache_dtype else CACHE_TYPE)))
        params = served_params(Heads(heads, 1, width, value_width), whole, "causal")
        return Cost(FAMILY, flop, moved, q.dtype, MATRIX, params, note)


__all__ = ["FROM_MARK", "HEADS_AFTER_PAGES", "LATENT", "LatentAttention", "ServedAttention"]
