"""The Answer's clock and findings in words, as the terminal and Markdown show them."""

from __future__ import annotations

from warplens.model.answer import Answer, AnsweredFinding, Part
from warplens.model.clock import Clock


def step_text(clock: Clock) -> str:
    """`9.6 to 13.7 ms (estimated) · 18.7 ms recorded · 3 steps · --step-time T, …`."""
    is_other = clock.of_step(clock.recorded_ms) != clock.of_step(clock.step_ms)
    recorded = f"{clock.of_step(clock.recorded_ms)} recorded" if is_other else ""
    return " · ".join(filter(None, (clock.text, recorded, clock.counted, clock.hint)))


def whose_step(answer: Answer, clock: Clock) -> str:
    """`one step`; of a job `one step of rank 1`."""
    return f"one {clock.whole}{f' of {answer.parts_of}' if answer.parts_of else ''}"


def finding_text(finding: AnsweredFinding) -> str:
    """`≤ 8.5 ms · 80 % of GPU events are short, …`."""
    return f"{finding.gain} · {finding.title}" if finding.gain else finding.title


def part_text(part: Part) -> str:
    """`GPU idle · host: forward`."""
    return f"{part.part} · {part.cause}" if part.cause else part.part
