"""Names of copies as recorders spell them, and the memories that they say are read and written."""

from __future__ import annotations

import re
from typing import Final

_END: Final = "host|device|peer|array|[hdpam]"
COPY: Final = re.compile(
    rf"(?:memcpy|memory_copy|copy)[ _]?(?P<source>{_END})(?:_to_|-to-| -> |to|2)(?P<target>{_END})(?:[23]d)?",
    re.IGNORECASE,
)
"""CUDA's MemcpyH2D and "Memcpy HtoD"; ROCm's CopyHostToDevice, hipMemcpyHtoDAsync and MEMORY_COPY_HOST_TO_DEVICE."""
HOST: Final = "H"
PEER: Final = "P"


def copy_ends(name: str) -> str:
    """The memories that a copy reads and writes: H(ost), D(evice), P(eer), A(rray); empty where its name has none.

    Level Zero writes H for memory of the host that it allocated and M for any other, which is pageable.

    >>> [copy_ends(name) for name in ("Memcpy DtoD (Device -> Device)", "MEMORY_COPY_HOST_TO_DEVICE", "Memcpy D2M")]
    ['DD', 'HD', 'DH']
    >>> copy_ends("__amd_rocclr_copyBuffer")
    ''
    """
    match = COPY.search(name)
    return (match["source"][0] + match["target"][0]).upper().replace("M", HOST) if match else ""


def is_host_copy(name: str) -> bool:
    """Whether a copy crosses the link between host and GPU."""
    ends = copy_ends(name)
    return HOST in ends and ends != HOST * 2
