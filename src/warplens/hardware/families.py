"""What GPU kernels run on, by the architectures that their names say: a family, never the limits of one GPU."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from warplens.hardware.tables import all_gpus

FAMILIES: Final = {
    "sm50": "Maxwell", "sm60": "Pascal", "sm61": "Pascal", "sm70": "Volta", "sm75": "Turing", "sm80": "Ampere",
    "sm86": "Ampere", "sm89": "Ada", "sm90": "Hopper", "sm100": "Blackwell", "sm103": "Blackwell",
    "sm120": "Blackwell", "gfx906": "MI50 family", "gfx908": "MI100 family", "gfx90a": "MI200 family",
    "gfx940": "MI300 family", "gfx941": "MI300 family", "gfx942": "MI300 family", "gfx950": "MI350 family",
    "gfx1030": "RDNA 2", "gfx1100": "RDNA 3", "gfx1101": "RDNA 3", "gfx1200": "RDNA 4", "gfx1201": "RDNA 4",
}  # fmt: skip


class Family(NamedTuple):
    """The GPUs that an architecture is of; of NVIDIA's, later ones run its kernels too."""

    architecture: str
    name: str
    members: tuple[str, ...]


def family_of_kernels(architectures: Collection[str]) -> Family | None:
    """By the newest architecture of all kernels: libraries run older kernels where these serve. None where names say
    nothing, or two makers.

    >>> family_of_kernels(["sm80", "", "sm90"]).name, family_of_kernels(["gfx942"]).members
    ('Hopper or later', ('MI300A', 'MI300X', 'MI325X'))
    >>> family_of_kernels(["sm80", "gfx942"]), family_of_kernels([""])
    (None, None)
    """
    named = {architecture for architecture in architectures if architecture in FAMILIES}
    makers = {architecture[:2] for architecture in architectures if architecture}
    if not named or len(makers) > 1:
        return None
    newest = max(named, key=lambda architecture: (len(architecture), architecture))
    is_nvidia = newest.startswith("sm")
    members = () if is_nvidia else tuple(gpu.name for gpu in all_gpus() if gpu.architecture == newest)
    return Family(newest, FAMILIES[newest] + (" or later" if is_nvidia else ""), members)
