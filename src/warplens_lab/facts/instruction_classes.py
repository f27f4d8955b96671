"""Which class of work a machine instruction does, by how its name begins: a table per vendor, first match wins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

CLASSES: Final = (
    "matrix",
    "float",
    "special",
    "integer",
    "convert",
    "move",
    "shuffle",
    "global_load",
    "global_store",
    "async_copy",
    "atomic",
    "shared_load",
    "shared_store",
    "local",
    "sync",
    "control",
    "other",
)

_NVIDIA: Final = (
    # UTC*MMA and *GMMA are the warp-group forms; UTMALDG and LDGSTS bring tiles to shared memory.
    ("matrix", r"(H|I|D|B|Q|O)G?MMA|UTC\w*MMA|UTCBAR"),
    ("async_copy", r"LDGSTS|UTMA|UBLKCP|LDGDEPBAR|UTMACMDFLUSH"),
    ("atomic", r"ATOM|RED\b|RED\.|ATOMS|REDG|UTMAREDG"),
    ("global_load", r"LDG|LD\b|LD\.E"),
    ("global_store", r"STG|ST\b|ST\.E"),
    ("local", r"LDL|STL"),
    ("shared_load", r"LDS|LDTM|UTCCP"),
    ("shared_store", r"STS|STTM"),
    ("special", r"MUFU"),
    ("convert", r"F2|I2|FRND|UF2|UI2"),
    ("shuffle", r"SHFL|REDUX|VOTE|MATCH|UVOTE|CREDUX"),
    (
        "sync",
        r"BAR|DEPBAR|WARPGROUP|WARPSYNC|SYNCS|MEMBAR|FENCE|ERRBAR|CCTL|UCGABAR|ELECT|NANOSLEEP|USETMAXREG|ACQ|UTCATOM",
    ),
    ("control", r"BRA|EXIT|BSSY|BSYNC|BREAK|CALL|RET|NOP|BRX|JMP|YIELD|KILL|UBRA|PREEXIT"),
    (
        "move",
        r"MOV|UMOV|IMAD\.MOV|CS2R|S2R|S2UR|R2UR|R2P|P2R|PRMT|UPRMT|SEL|USEL|LDC|ULDC|LDCU|PLOP3|UPLOP3|R2B|B2R|CS2UR",
    ),
    ("float", r"F|H|D(ADD|FMA|MUL|SETP)|UF"),
    ("integer", r"I|U?LOP|U?LEA|U?SHF|U?SGXT|VI|U?BREV|U?POPC|U?FLO|U?BMSK|UI|UM|US|V|SHL|SHR|LOP|X"),
)

_AMD: Final = (
    ("matrix", r"v_(s?mfmac?|wmma)"),
    ("async_copy", r"(buffer|global)_load_\w.*\blds\b|global_load_lds|buffer_load_\w+_lds"),
    ("atomic", r"(global|buffer|flat|ds)_(\w+_)?atomic|ds_add"),
    ("local", r"scratch_|v_accvgpr_spill"),
    ("global_load", r"(global|buffer|flat)_load"),
    ("global_store", r"(global|buffer|flat)_store"),
    ("shuffle", r"ds_(bpermute|permute|swizzle)|v_permlane|v_readlane|v_readfirstlane|v_mov_b32_dpp|v_writelane"),
    ("shared_load", r"ds_read|ds_load"),
    ("shared_store", r"ds_write|ds_store"),
    ("sync", r"s_waitcnt|s_barrier|s_wait|s_sleep|s_setprio|s_sethalt|buffer_(wbl2|inv)"),
    ("control", r"s_(cbranch|branch|endpgm|nop|setpc|getpc|swappc|inst_prefetch)|s_trap"),
    ("special", r"v_(exp|log|rcp|rsq|sqrt|sin|cos)"),
    ("convert", r"v_cvt|v_pack"),
    ("move", r"v_mov|s_mov|v_accvgpr|v_cndmask|s_cselect|s_load|v_perm|s_getreg|s_setreg|v_swap|v_bfi|s_buffer_load"),
    ("float", r"v_\w*_(f16|f32|f64|bf16)"),
    ("integer", r"v_|s_"),
)

_COMPILED: Final = {
    vendor: tuple((name, re.compile(pattern)) for name, pattern in table)
    for vendor, table in (("nvidia", _NVIDIA), ("amd", _AMD))
}


@lru_cache(maxsize=4096)
def class_of(vendor: str, instruction: str) -> str:
    """
    >>> [class_of("nvidia", name) for name in ("HGMMA.64x128x16.F32", "LDGSTS.E.BYPASS.128", "IMAD.MOV.U32", "STL.128")]
    ['matrix', 'async_copy', 'move', 'local']
    >>> [class_of("amd", name) for name in ("v_mfma_f32_32x32x8_f16", "ds_read_b128", "s_waitcnt")]
    ['matrix', 'shared_load', 'sync']
    """
    return next((name for name, pattern in _COMPILED[vendor] if pattern.match(instruction)), "other")


def counted(vendor: str, instructions: Sequence[str]) -> tuple[tuple[str, int], ...]:
    classes = [class_of(vendor, instruction) for instruction in instructions]
    return tuple((name, classes.count(name)) for name in CLASSES if name in classes)
