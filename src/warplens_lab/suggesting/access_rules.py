"""Rules about memory: narrow accesses, masks that narrow them, and bank conflicts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warplens_lab.facts.records import Access, KernelFacts, SharedAccess
from warplens_lab.suggesting.counterfactual import Change
from warplens_lab.suggesting.records import Draft, Situation
from warplens_lab.suggesting.thresholds import THRESHOLDS

_VECTOR = re.compile(r"^(?:(?!vec = ).)*vec = (\d+)(?!\d).*origin vec = (\d+)")
_MOST_ARGUMENTS = 6
"""Omitting each of them costs one more compilation."""


def narrow_accesses(situation: Situation) -> Iterator[Draft]:
    """WK102: the pointer or a stride is not known to be divisible, or neighbours in the tile are none in memory."""
    for access in situation.facts.accesses:
        if not is_narrow(access) or is_narrowed_by_mask(situation.facts, access):
            continue
        if access.by_strides:
            yield _descriptor_draft(situation, access)
        elif access.undivided:
            yield _divisibility_draft(situation, "WK102", access, "the address is not known to be aligned")
        elif access.width_bits * THRESHOLDS.far_width_ratio <= access.best_bits:
            yield Draft(
                code="WK102",
                target=situation.access_row(access),
                place=access.place,
                evidence=f"{_evidence(access)}; all arguments of the address are divisible by 16",
                advice="either the tile starts at an offset that is not a multiple of the access width, or "
                "neighbouring elements of the tile are not neighbours in memory: start at a multiple of 16, and let "
                "the last dimension of the tile run along the stride of 1",
            )


def masks(situation: Situation) -> Iterator[Draft]:
    """WK107: the compiler says that the pointers would allow wider accesses than the mask does."""
    for access in situation.facts.accesses:
        if not is_narrow(access) or not is_narrowed_by_mask(situation.facts, access):
            continue
        elements = _elements_without_mask(situation.facts, access)
        allowed = f" (the pointers alone would allow {elements * access.element_bits})" if elements else ""
        why = f"its mask is what narrows it{allowed}"
        if access.undivided:
            yield _divisibility_draft(situation, "WK107", access, why)
        else:
            yield Draft(
                code="WK107",
                target=situation.access_row(access),
                place=access.place,
                evidence=f"{_evidence(access)}; {why}",
                advice="compare offsets with a bound that is a multiple of 16, or omit the mask in all blocks but the "
                "last",
            )


def is_narrow(access: Access) -> bool:
    return (
        access.is_tile
        and access.kind in ("load", "store", "async copy")
        and not access.is_indirect
        and 0 < access.width_bits * THRESHOLDS.width_ratio <= access.best_bits
    )


def is_narrowed_by_mask(facts: KernelFacts, access: Access) -> bool:
    """The compiler says so, or only an argument of the mask, none of the address, is in doubt."""
    if access.by_strides:
        return False
    if _elements_without_mask(facts, access):
        return True
    return access.is_masked and bool(access.undivided) and not access.undivided_address


def _elements_without_mask(facts: KernelFacts, access: Access) -> int:
    """Elements at once that the compiler's remark on the access grants its pointers beyond its mask; 0 for none."""
    for remark in facts.remarks:
        match = _VECTOR.search(remark.text) if remark.line == access.place.line else None
        if match and remark.column == access.place.column and int(match[2]) > int(match[1]):
            return int(match[2])
    return 0


def _descriptor_draft(situation: Situation, access: Access) -> Draft:
    return Draft(
        code="WK102",
        target=situation.access_row(access),
        place=access.place,
        evidence=f"{_evidence(access)}; {situation.facts.target} has no TMA, so the host's descriptor becomes a "
        "pointer with strides that are known only at run time, including the last one",
        advice="make the descriptor in the kernel, `tl.make_tensor_descriptor(ptr, shape, [stride, 1], block)`, or use "
        "plain pointers: then the compiler sees that the last stride is 1",
    )


def _divisibility_draft(situation: Situation, code: str, access: Access, why: str) -> Draft:
    names = access.undivided
    pointers = access.argument.split("|")
    every = Change(divisible=names)
    # Omitting one at a time shows which of them are needed.
    fewer = [Change(divisible=tuple(n for n in names if n != omitted)) for omitted in names] if len(names) > 1 else []

    def needed(helping: Sequence[Change]) -> tuple[Change, ...]:
        unneeded = {name for name in names if any(name not in change.divisible for change in helping)}
        omitted = tuple(name for name in names if name not in unneeded)
        return (Change(divisible=omitted),) if len(unneeded) > 1 and omitted else ()

    def helps(after: KernelFacts) -> bool:
        recompiled = next((candidate for candidate in after.accesses if candidate.is_same(access)), None)
        return recompiled is not None and recompiled.width_bits > access.width_bits

    def smallest(changes: Sequence[Change]) -> Change:
        return min(changes, key=lambda change: len(change.divisible))

    fits = max(access.best_bits // max(access.element_bits, 1), 1)
    return Draft(
        code=code,
        target=situation.access_row(access),
        place=access.place,
        evidence=f"{_evidence(access)}; {why}: {{unknown}} not known to be divisible by 16",
        advice="pass {written}",
        changes=(every, *fewer[:_MOST_ARGUMENTS]),
        helps=helps,
        smallest=smallest,
        further=needed,
        needs_proof=access.width_bits >= THRESHOLDS.narrow_bits,
        otherwise="divisible arguments do not help here: neighbouring elements of the tile are not neighbours in "
        "memory; let the last dimension of the tile run along the stride of 1",
        unknown=names,
        written=lambda change: _written(change, pointers, fits),
    )


def _written(change: Change, pointers: Sequence[str], fits: int) -> str:
    """Numbers as multiples, with the other ways to a known one; a pointer has none but another address."""
    numbers = [name for name in change.divisible if name not in pointers]
    views = ", ".join(name for name in change.divisible if name in pointers)
    ways = [_multiples(numbers, fits)] if numbers else []
    if views:
        specialised = "" if numbers else ", so that Triton specialises the kernel for it"
        at = "at an address that is a multiple of 16 bytes, as a tensor's own beginning is and a view's may not be"
        ways.insert(0, f"{views} {at}{specialised}")
    return "; and ".join(ways)


def _multiples(names: Sequence[str], fits: int) -> str:
    code = ", ".join(f"`{name} // {fits} * {fits}`" for name in names)
    always = f"it always is a multiple of {fits}" if len(names) == 1 else f"they always are multiples of {fits}"
    pronoun = "it" if len(names) == 1 else "them"
    return (
        f"{Change(divisible=tuple(names)).text()} (a multiple of 16, so that Triton specialises the kernel for it), "
        f"pad the tensor to make {pronoun} so, or, where {always}, write {code}, which shows the compiler"
    )


def _evidence(access: Access) -> str:
    where = f"the {access.kind} of {access.argument}" if access.argument else f"the {access.kind}"
    return f"{where} moves {access.width_bits} bits per thread at once, {access.best_bits} would fit"


def bank_conflicts(situation: Situation) -> Iterator[Draft]:
    """WK106: another layout of the same tile in shared memory would have far fewer."""
    groups: dict[tuple[str, tuple[int, ...]], list[SharedAccess]] = {}
    for access in situation.facts.shared:
        groups.setdefault((access.layout, access.allocated or access.shape), []).append(access)
    for group in groups.values():
        worst = max(group, key=lambda access: access.conflicts or 0)
        now, padded, swizzled = (
            _passes([a.conflicts for a in group]),
            _passes([a.conflicts_padded for a in group]),
            _passes([a.conflicts_swizzled for a in group]),
        )
        if now is None or padded is None or swizzled is None:
            continue
        if now < THRESHOLDS.conflict_ratio * min(padded, swizzled):
            continue
        yield Draft(
            code="WK106",
            target=situation.shared_row(worst),
            place=worst.place,
            evidence=f"a {worst.kind} of the {'×'.join(map(str, worst.shape))} tile takes {worst.conflicts} extra "
            f"passes per wavefront; layout {worst.layout}",
            advice=f"padding each row by {worst.padding} elements gives {padded - 1} extra passes, the best swizzle "
            f"{swizzled - 1}; in plain Triton, the order of the tile's dimensions or its width decides the layout",
        )


def _passes(counts: Sequence[int | None]) -> int | None:
    """Passes of the worst access, its own included; None where one is not modelled."""
    modelled = [count for count in counts if count is not None]
    return 1 + max(modelled) if modelled and len(modelled) == len(counts) else None
