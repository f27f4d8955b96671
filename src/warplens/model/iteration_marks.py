"""Marks of iterations: what a serving engine writes into a trace around each forward pass, read from the name alone.

- vLLM (`vllm/v1/worker/gpu_worker.py`, `annotate_profile`): `execute_context_1(888)_generation_3(3)`; with
  `detailed_trace_annotation` `execute_891_context_1(sq888sk888sqsq…sqsk…)_generation_3(sq3sk…sqsq…sqsk…)`; forks before
  that `execute_context_1(888_788544)_generation_0(0)`, the tokens and the sum of their squares; until 2025
  `execute_new_1_cached_3`
- SGLang (`sglang/srt/utils/profile_utils.py`): `step[EXTEND bs=15 toks=15360]`, `step[DECODE bs=32 g_sq=32 …]`
- ATOM: `prefill[bs=2 tok=14721 ctx=[…] …]`, `decode[bs=117/128 tok=117 d=117]`, 128 being the size of the graph
- TensorRT-LLM: `[Executor] _forward_step 7: 1 ctx reqs, 888 ctx tokens, 3 gen reqs`, in C++ `executeStep: …`
- any program, as Warplens's workloads do: `generate[EXTEND bs=1 c_sq=512 c_sk=512 c_sqsq=… c_sqsk=…]` and
  `generate[DECODE bs=1 g_sq=1 g_sk=513 g_sqsq=1 g_sqsk=513]`

Diffusion models are marked around a whole generation, not around a pass, and have no tokens: `parse_generation` reads
`execute_diffusion_1_256x256` (images, height, width) and `execute_diffusion_256x256_bf16`.

Hugging Face's `generate` marks nothing.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from warplens.lazy_patterns import LazyPattern
from warplens_run.base import bounded

Phase = Literal["prefill", "decode", "mixed"]
PHASES: Final[tuple[Phase, ...]] = ("prefill", "decode", "mixed")
LONGEST_NAME: Final = 512
"""Longer names are not read: no engine writes them."""


class RequestSums(msgspec.Struct, frozen=True):
    """Sums over the requests of one kind in an iteration; None where the mark does not say."""

    requests: int | None = None
    query_tokens: int | None = None
    """New tokens: of prompts, or one per request that generates (more with speculation)."""
    key_tokens: int | None = None
    """Tokens that attention reads: those of the cache and the new ones."""
    query_squares: int | None = None
    query_keys: int | None = None
    """The sum of query tokens times key tokens of each request: what attention computes."""


class IterationMark(msgspec.Struct, frozen=True):
    engine: str
    phase: Phase
    batch: int | None
    """The size that graphs of this engine are captured for: tokens (vLLM, prefill of SGLang) or requests (SGLang)."""
    context: RequestSums
    generation: RequestSums
    mode: str = ""
    """What SGLang calls the pass."""
    padded_batch: int | None = None
    """The size of the graph that is replayed, where the mark says it."""

    @property
    def is_draft(self) -> bool:
        """A pass of the draft model of speculative decoding: a part of an iteration."""
        return self.mode.startswith("DRAFT")

    @property
    def details(self) -> int:
        """How many of the sums are recorded: of two marks of one iteration the one that says more is used."""
        groups = (self.context, self.generation)
        fields = (group.query_tokens for group in groups), (group.key_tokens for group in groups)
        return sum(value is not None for values in fields for value in values)


class CaptureMark(msgspec.Struct, frozen=True):
    """Around the capture of a graph: the size it is captured for, and the engine's name of the kind of graph."""

    batch: int
    mode: str


class GenerationMark(msgspec.Struct, frozen=True):
    """Around the generation of images or of a video by a diffusion model, all of its denoising passes together."""

    size: str
    images: int | None = None


NOTHING: Final = RequestSums(0, 0, 0, 0, 0)
_N = r"([0-9]{1,18})"
_SUMS = rf"\(sq{_N}sk{_N}sqsq{_N}sqsk{_N}\)"
VLLM_DETAILED: Final = LazyPattern(rf"execute_{_N}_context_{_N}{_SUMS}_generation_{_N}{_SUMS}")
VLLM: Final = LazyPattern(rf"execute_context_{_N}\({_N}(?:_{_N})?\)_generation_{_N}\({_N}(?:_{_N})?\)")
VLLM_2025: Final = LazyPattern(rf"execute_new_{_N}_cached_{_N}")
STEP: Final = LazyPattern(r"(step|generate)\[([A-Z][A-Z0-9_]{0,31})((?: [a-z_]{1,16}=[0-9]{1,18}){0,16})\]")
ATOM: Final = LazyPattern(r"(prefill|decode)\[(.{0,480})\]")
TENSORRT_LLM: Final = LazyPattern(
    rf"(?:\[Executor\] )?(?:_forward_step(?: {_N})?|executeStep): {_N} ctx reqs, (?:{_N} ctx tokens, )?{_N} gen reqs"
)
DIFFUSION: Final = LazyPattern(r"execute_diffusion_(?:([0-9]{1,9})_)?([0-9]{1,6}x[0-9]{1,6})(?:_[A-Za-z0-9]{1,16})?")
CAPTURE: Final = LazyPattern(rf"capture_{_N}_([A-Za-z][A-Za-z0-9_]{{0,31}})")
PAIR: Final = LazyPattern(r"([a-z_]{1,16})=([0-9]{1,18})(?:/([0-9]{1,18}))?")

STEP_PHASES: Final[dict[str, Phase]] = {
    "EXTEND": "prefill",
    "SPLIT_PREFILL": "prefill",
    "DECODE": "decode",
    "TARGET_VERIFY": "decode",
    # A rank of data-parallel attention without requests takes part in the collectives of the others.
    "IDLE": "decode",
    "MIXED": "mixed",
    # Models that diffuse blocks of text run prompts and blocks in one mode.
    "DLLM_EXTEND": "mixed",
    "DRAFT_EXTEND": "decode",
    "DRAFT_EXTEND_V2": "decode",
    "DRAFT_LOOP": "decode",
}
"""Modes that SGLang marks. `PREBUILT` runs no forward pass."""


def parse_mark(name: str) -> IterationMark | None:
    """The mark of an iteration, or None for any other name.

    >>> mark = parse_mark("execute_context_1(888)_generation_3(3)")
    >>> mark.phase, mark.batch, mark.context.query_tokens, mark.generation.requests
    ('mixed', 891, 888, 3)
    """
    if len(name) > LONGEST_NAME:
        return None
    for start, reader in _READERS:
        if name.startswith(start):
            return reader(name)
    return None


def parse_capture(name: str) -> CaptureMark | None:
    """The mark around the capture of a graph (`capture_32_DECODE`, `capture_8192_PIECEWISE`), or None."""
    match = CAPTURE.fullmatch(name) if len(name) <= LONGEST_NAME else None
    return CaptureMark(int(match[1]), match[2]) if match else None


def parse_generation(name: str) -> GenerationMark | None:
    """The mark of a diffusion model's generation, or None.

    >>> parse_generation("execute_diffusion_4_1024x768")
    GenerationMark(size='1024x768', images=4)
    """
    match = DIFFUSION.fullmatch(name) if len(name) <= LONGEST_NAME else None
    return GenerationMark(match[2], int(match[1]) if match[1] else None) if match else None


def _phase(context: RequestSums, generation: RequestSums) -> Phase:
    if not context.requests:
        return "decode"
    return "mixed" if generation.requests else "prefill"


def _vllm(name: str) -> IterationMark | None:
    if match := VLLM_DETAILED.fullmatch(name):
        numbers = [int(number) for number in match.groups()]
        context, generation = RequestSums(*numbers[1:6]), RequestSums(*numbers[6:11])
        return IterationMark("vLLM", _phase(context, generation), numbers[0], context, generation)
    if match := VLLM.fullmatch(name):
        context, generation = _with_squares(*match.groups()[:3]), _with_squares(*match.groups()[3:])
        tokens = (context.query_tokens or 0) + (generation.query_tokens or 0)
        return IterationMark("vLLM", _phase(context, generation), tokens, context, generation)
    if match := VLLM_2025.fullmatch(name):
        # Later chunks of a prompt count as cached requests there; nothing tells them from those that generate.
        context, generation = _counted(int(match[1])), _counted(int(match[2]))
        return IterationMark("vLLM", _phase(context, generation), None, context, generation)
    return None


def _with_squares(requests: str, tokens: str, squares: str | None) -> RequestSums:
    if bounded.whole(requests) == 0:
        return NOTHING
    return RequestSums(
        bounded.whole(requests), bounded.whole(tokens), None, bounded.whole(squares) if squares else None
    )


def _counted(requests: int, tokens: int | None = None) -> RequestSums:
    return RequestSums(requests, tokens) if requests else NOTHING


def _step(name: str) -> IterationMark | None:
    match = STEP.fullmatch(name)
    if match is None or match[2] not in STEP_PHASES:
        return None
    mode, values = match[2], {pair[1]: int(pair[2]) for pair in PAIR.finditer(match[3])}
    phase, requests = STEP_PHASES[mode], values.get("bs")
    engine = "SGLang" if match[1] == "step" else "generate"
    if phase == "mixed":
        context, generation = _sums(values, "c", values.get("c")), _sums(values, "g", values.get("g"))
        if values.get("c") is None:
            # Without details a mixed pass says only how many requests it has.
            context = RequestSums(None, values.get("toks"))
        return IterationMark(engine, phase, context.query_tokens, context, generation, mode)
    if phase == "prefill":
        context = _sums(values, "c", requests)
        if context.query_tokens is None:
            context = RequestSums(requests, values.get("toks"))
        return IterationMark(engine, phase, context.query_tokens, context, NOTHING, mode)
    generation = _sums(values, "c" if "c_sq" in values else "g", requests)
    if mode == "DECODE" and generation.query_tokens is None:
        generation = RequestSums(requests, requests)
    if mode == "IDLE" and requests == 0:
        generation = NOTHING
    return IterationMark(engine, phase, requests, NOTHING, generation, mode)


def _sums(values: dict[str, int], group: str, requests: int | None) -> RequestSums:
    if requests == 0:
        return NOTHING
    tokens, keys = values.get(f"{group}_sq"), values.get(f"{group}_sk")
    return RequestSums(requests, tokens, keys, values.get(f"{group}_sqsq"), values.get(f"{group}_sqsk"))


def _atom(name: str) -> IterationMark | None:
    match = ATOM.fullmatch(name)
    if match is None:
        return None
    pairs = {pair[1]: pair for pair in PAIR.finditer(match[2])}
    values = {key: int(pair[2]) for key, pair in pairs.items()}
    if "bs" not in values or "tok" not in values:
        return None
    padded = int(pairs["bs"][3]) if pairs["bs"][3] else None
    batch, prompts = values["bs"], values.get("p", 0)
    sums = RequestSums(batch, values["tok"], values.get("sk"), values.get("sqsq"), values.get("sqsk"))
    if match[1] == "prefill":
        return IterationMark("ATOM", "prefill", values["tok"], sums, NOTHING, padded_batch=padded)
    if prompts:
        # The sums are of both kinds of requests together.
        both = (RequestSums(prompts), RequestSums(values.get("d", batch - prompts)))
        return IterationMark("ATOM", "mixed", values["tok"], *both, padded_batch=padded)
    return IterationMark("ATOM", "decode", batch, NOTHING, sums, padded_batch=padded)


def _tensorrt_llm(name: str) -> IterationMark | None:
    match = TENSORRT_LLM.fullmatch(name)
    if match is None:
        return None
    tokens = int(match[3]) if match[3] else None
    context, generation = _counted(int(match[2]), tokens), _counted(int(match[4]))
    return IterationMark("TensorRT-LLM", _phase(context, generation), None, context, generation)


_READERS: Final = (
    ("execute_", _vllm),
    ("step[", _step),
    ("generate[", _step),
    ("prefill[", _atom),
    ("decode[", _atom),
    ("[Executor] _forward_step", _tensorrt_llm),
    ("_forward_step", _tensorrt_llm),
    ("executeStep: ", _tensorrt_llm),
)
