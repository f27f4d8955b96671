"""Which GPU is meant: by a name that a person types, or by what a trace says about its device."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from warplens.hardware.gpus import Gpu
from warplens.hardware.tables import all_gpus, gpus_alike
from warplens_run.base.errors import UsageError

Words = tuple[str, ...]

_MAKERS = frozenset(("nvidia", "amd", "instinct", "tesla", "geforce"))

# How a typed name may agree with a GPU's, strictest first; the first way that finds anything decides.
_AGREEMENTS: tuple[Callable[[Words, Words], bool], ...] = (
    lambda typed, name: "".join(typed) == "".join(name),
    lambda typed, name: set(typed) <= set(name),
    lambda typed, name: all(any(word.startswith(start) for word in name) for start in typed),
    lambda typed, name: "".join(typed) in "".join(name),
)

# Drivers keep some memory back: 92 to 99.9 % of the binary size was seen, from L40S (ECC) to MI300X.
_LEAST_VISIBLE_MEMORY, _MOST_VISIBLE_MEMORY = 0.88, 1.02
# A device with fewer multiprocessors is a slice of the GPU (an MI300X in CPX mode shows 38 of 304) and has a share
# of its peaks only; with more, it is another GPU of a similar name.
_MULTIPROCESSOR_TOLERANCE = 0.1
_SLICE = re.compile(r"\bMIG\b")
_NOT_A_MODEL = re.compile(r"\bgfx[0-9a-f]+\S*|\b\d\b", re.IGNORECASE)


def gpu_named(text: str) -> Gpu:
    """The GPU that a person means by `text`: "h100 nvl", "a100-80", "mi300x" or a device's full name."""
    typed = _words(text)
    for agrees in _AGREEMENTS if typed else ():
        candidates = [
            gpu for gpu in all_gpus() if any(agrees(typed, _words(name)) for name in (gpu.name, *gpu.aliases))
        ]
        if candidates:
            return _only(candidates, text)
    candidates = _matching(text)
    if not candidates:
        raise _unknown(text)
    return _only(candidates, text)


def _unknown(text: str) -> UsageError:
    from difflib import get_close_matches  # only this error needs it

    names = {gpu.name.lower(): gpu.name for gpu in all_gpus()}
    nearest = [names[name] for name in get_close_matches(text.lower(), names, n=5, cutoff=0.5)]
    hint = "closest: " + ", ".join(nearest) if nearest else "known: " + ", ".join(names.values())
    return UsageError(f"no GPU is known as {text!r}", hint=hint)


def _words(text: str) -> Words:
    return tuple(word for word in re.findall("[a-z0-9]+", text.lower()) if word not in _MAKERS)


def _only(candidates: Sequence[Gpu], text: str) -> Gpu:
    if len(candidates) > 1:
        raise UsageError(f"{text!r} is more than one GPU", hint="one of: " + ", ".join(gpu.name for gpu in candidates))
    return candidates[0]


def gpu_of_device(name: str, multiprocessors: int = 0, memory_bytes: int = 0, compute: str = "") -> Gpu | None:
    """The GPU that a trace's device is, or None where that is not certain; 0 and "" mean unknown.

    A part of a GPU (MIG, CPX) is None as well, because the peaks of the whole do not hold for it.
    """
    if _SLICE.search(name):
        return None
    named = _matching(name)
    if named:
        fits = _narrowed([gpu for gpu in named if _is_whole(gpu, multiprocessors)], multiprocessors, memory_bytes)
    elif multiprocessors > 0 and memory_bytes > 0 and is_generic(name):
        alike = [gpu for gpu in all_gpus() if _has_compute(gpu, compute or name)]
        fits = [gpu for gpu in alike if gpu.multiprocessors == multiprocessors and _has_memory(gpu, memory_bytes)]
    else:
        fits = []
    return fits[0] if len(fits) == 1 else None


def _matching(name: str) -> list[Gpu]:
    return [gpu for gpu in gpus_alike(name) if any(re.search(pattern, name, re.IGNORECASE) for pattern in gpu.match)]


def _is_whole(gpu: Gpu, multiprocessors: int) -> bool:
    if multiprocessors <= 0 or not gpu.multiprocessors:
        return True
    return abs(multiprocessors - gpu.multiprocessors) <= _MULTIPROCESSOR_TOLERANCE * gpu.multiprocessors


def _narrowed(candidates: list[Gpu], multiprocessors: int, memory_bytes: int) -> list[Gpu]:
    if len(candidates) > 1 and multiprocessors > 0:
        candidates = [gpu for gpu in candidates if gpu.multiprocessors == multiprocessors]
    if len(candidates) > 1 and memory_bytes > 0:
        candidates = [gpu for gpu in candidates if _has_memory(gpu, memory_bytes)]
    return candidates


def _has_memory(gpu: Gpu, memory_bytes: int) -> bool:
    size = gpu.memory_gb * 1024**3
    return _LEAST_VISIBLE_MEMORY * size <= memory_bytes <= _MOST_VISIBLE_MEMORY * size


def is_generic(name: str) -> bool:
    """Whether the name contains no model: empty, "AMD Radeon Graphics", "gfx942:sramecc+:xnack-", "Device 0"."""
    return not re.search(r"\d", _NOT_A_MODEL.sub("", name))


def _has_compute(gpu: Gpu, compute: str) -> bool:
    """Whether a compute capability ("9.0", "sm_90") or gfx name agrees with the GPU; says yes to none at all."""
    text = compute.strip().lower()
    match = re.search(r"gfx[0-9a-f]+|sm_?\d+|^\d+\.\d+$", text)
    if match is None:
        return True
    return match[0].replace("_", "") in (gpu.architecture.replace("_", ""), _capability(gpu.architecture))


def _capability(architecture: str) -> str:
    """ "sm_90" → "9.0", "gfx942" → "9.4": HIP reports the same pair of numbers, without the stepping."""
    digits = architecture.removeprefix("sm_").removeprefix("gfx")
    minor = -2 if architecture.startswith("gfx") else -1
    return f"{digits[:minor]}.{digits[minor]}" if len(digits) >= -minor else ""
