"""Contents of storages: random where a kernel's time or power depends on it, the same on every run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from warplens_run.formats.replay_plan import Fill, Storage
from warplens_run.replay.faults import BadUnit

FNV_START: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3
CHUNK: Final = 1 << 26
"""Elements generated at a time, so that a storage of many GB needs little extra memory."""


def dtype_of(name: str) -> Any:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise BadUnit(f"this PyTorch has no dtype {name}")
    return dtype


def seed_of(key: str) -> int:
    """FNV-1a: a few lines in any language, so that the C++ runner draws the same numbers."""
    value = FNV_START
    for byte in key.encode():
        value = (value ^ byte) * FNV_PRIME % (1 << 64)
    return value >> 8  # a generator takes 63 bits


def fill(flat: Any, storage: Storage, seed: int, key: str) -> None:
    """Fills a storage's bytes; `key` identifies it in the run."""
    generator = torch.Generator(flat.device).manual_seed(seed_of(f"{seed}/{key}"))
    view = _elements(flat[: storage.bytes], dtype_of(storage.dtype))
    try:
        for start, part in _chunks(storage.fill, view, generator):
            view[start : start + part.numel()].copy_(part)
    except (NotImplementedError, RuntimeError) as error:
        if "not implemented" not in str(error):
            raise
        # Packed and other odd types have no cast: any bytes will do.
        flat.random_(0, 256, generator=generator)


def _elements(flat: Any, dtype: Any) -> Any:
    """The storage as a row of elements; of complex ones, of their parts."""
    if dtype.is_complex:
        dtype = dtype.to_real()
    used_bytes = flat.numel() // dtype.itemsize * dtype.itemsize
    return flat[:used_bytes].view(dtype)


def _chunks(how: Fill, view: Any, generator: Any) -> Iterator[tuple[int, Any]]:
    for start in range(0, view.numel(), CHUNK):
        yield start, _chunk(how, start, min(CHUNK, view.numel() - start), view.dtype, generator)


def _chunk(how: Fill, start: int, count: int, dtype: Any, generator: Any) -> Any:
    on_device = {"device": generator.device}
    is_integer = not dtype.is_floating_point
    if how.kind == "constant":
        return torch.full((count,), int(how.low) if is_integer else how.low, dtype=_exact(is_integer), **on_device)
    if how.kind == "ramp":
        steps = torch.arange(start, start + count, dtype=_exact(is_integer), **on_device)
        low, step, high = (int(number) if is_integer else number for number in (how.low, how.step, how.high))
        return steps.mul_(step).add_(low).clamp_(max=high)
    if how.kind == "shares":
        pieces = int(how.step)
        turns = torch.arange(start, start + count, dtype=torch.int64, **on_device).remainder_(pieces)
        return turns.neg_().add_(int(how.low) + pieces - 1).div_(pieces, rounding_mode="floor")
    if how.kind == "digits":
        positions = torch.arange(start, start + count, dtype=torch.int64, **on_device)
        triples = zip(how.digits[::3], how.digits[1::3], how.digits[2::3], strict=True)
        zero = torch.zeros(count, dtype=torch.int64, **on_device)
        return sum(((positions // stride % size).mul_(step) for stride, size, step in triples), zero)
    if how.kind in ("normal", "rectified", "masked"):
        numbers = torch.randn(count, generator=generator, **on_device)
        if how.kind == "rectified":
            numbers.clamp_(min=0)
        if how.kind == "masked":
            numbers.mul_(torch.rand(count, generator=generator, **on_device) < 0.5)
        if dtype == torch.bool:
            return numbers > 0
        # An unsigned type has no place for what is below zero.
        return numbers.round_().abs_() if is_integer else numbers
    if how.kind == "uniform" and not is_integer:
        return torch.rand(count, generator=generator, **on_device).mul_(how.high - how.low).add_(how.low)
    low, high = int(how.low), int(how.high)
    if low >= high:
        raise BadUnit(f"no integer is at least {low} and below {high}")
    if how.kind == "permutation":
        return torch.randperm(count, generator=generator, **on_device).remainder_(high - low).add_(low)
    return torch.randint(low, high, (count,), generator=generator, **on_device)


def _exact(is_integer: bool) -> Any:
    return torch.int64 if is_integer else torch.float64
