from __future__ import annotations

import pytest

from support import ends
from warplens.model.iteration_marks import NOTHING, IterationMark, RequestSums, parse_capture, parse_mark

MARKS: list[tuple[str, IterationMark]] = [
    (
        "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
        IterationMark(
            "vLLM",
            "mixed",
            8192,
            RequestSums(9, 8155, 8430, 7475785, 7671310),
            RequestSums(37, 37, 34489, 37, 34489),
        ),
    ),
    (
        "execute_context_1(888_788544)_generation_0(0)",
        IterationMark("vLLM", "prefill", 888, RequestSums(1, 888, None, 888 * 888), NOTHING),
    ),
    (
        "execute_context_2(6144)_generation_3(3)",
        IterationMark("vLLM", "mixed", 6147, RequestSums(2, 6144), RequestSums(3, 3)),
    ),
    ("execute_context_0(0)_generation_64(64)", IterationMark("vLLM", "decode", 64, NOTHING, RequestSums(64, 64))),
    ("execute_new_1_cached_3", IterationMark("vLLM", "mixed", None, RequestSums(1), RequestSums(3))),
    (
        "step[EXTEND bs=15 toks=15360]",
        IterationMark("SGLang", "prefill", 15360, RequestSums(15, 15360), NOTHING, "EXTEND"),
    ),
    (
        "step[EXTEND bs=2 toks=12 c_sq=12 c_sqsq=80 c_sqsk=120 c_sk=20]",
        IterationMark("SGLang", "prefill", 12, RequestSums(2, 12, 20, 80, 120), NOTHING, "EXTEND"),
    ),
    ("step[DECODE bs=32]", IterationMark("SGLang", "decode", 32, NOTHING, RequestSums(32, 32), "DECODE")),
    (
        "step[DECODE bs=2 g_sq=8 g_sqsq=32 g_sqsk=120 g_sk=30]",
        IterationMark("SGLang", "decode", 2, NOTHING, RequestSums(2, 8, 30, 32, 120), "DECODE"),
    ),
    (
        "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
        IterationMark("SGLang", "mixed", 5, RequestSums(1, 5, 8, 25, 40), RequestSums(1, 1, 12, 1, 12), "MIXED"),
    ),
    ("step[MIXED bs=2]", IterationMark("SGLang", "mixed", None, RequestSums(), RequestSums(), "MIXED")),
    ("step[TARGET_VERIFY bs=2]", IterationMark("SGLang", "decode", 2, NOTHING, RequestSums(2), "TARGET_VERIFY")),
    ("step[IDLE bs=0]", IterationMark("SGLang", "decode", 0, NOTHING, NOTHING, "IDLE")),
    (
        "step[DRAFT_LOOP raw_bs=3 bs=4 topk=1]",
        IterationMark("SGLang", "decode", 4, NOTHING, RequestSums(4), "DRAFT_LOOP"),
    ),
    (
        "generate[DECODE bs=1 g_sq=1 g_sk=513 g_sqsq=1 g_sqsk=513]",
        IterationMark("generate", "decode", 1, NOTHING, RequestSums(1, 1, 513, 1, 513), "DECODE"),
    ),
    (
        "prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3]",
        IterationMark("ATOM", "prefill", 17408, RequestSums(6, 17408), NOTHING),
    ),
    (
        "decode[bs=117/128 tok=117 d=117 sqsq=117 sqsk=9000 sk=9000]",
        IterationMark("ATOM", "decode", 117, NOTHING, RequestSums(117, 117, 9000, 117, 9000), padded_batch=128),
    ),
    (
        "decode[bs=128 tok=384 p=2 d=126]",
        IterationMark("ATOM", "mixed", 384, RequestSums(2), RequestSums(126)),
    ),
    (
        "[Executor] _forward_step 7: 1 ctx reqs, 888 ctx tokens, 3 gen reqs",
        IterationMark("TensorRT-LLM", "mixed", None, RequestSums(1, 888), RequestSums(3)),
    ),
    (
        "[Executor] _forward_step 60000: 0 ctx reqs, 32 gen reqs",
        IterationMark("TensorRT-LLM", "decode", None, NOTHING, RequestSums(32)),
    ),
    (
        "executeStep: 4 ctx reqs, 0 gen reqs",
        IterationMark("TensorRT-LLM", "prefill", None, RequestSums(4), NOTHING),
    ),
]


@pytest.mark.parametrize(("name", "expected"), MARKS, ids=[name[:40] for name, _ in MARKS])
def test_every_engine_s_mark_is_read_as_its_source_writes_it(name: str, expected: IterationMark) -> None:
    assert parse_mark(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "execute_model",
        "execute_diffusion_1_1024x1024",
        "execute_context_1()_generation_0(0)",
        "execute_context_1(888)_generation_0(0) and more",
        f"execute_context_{'9' * 30}(1)_generation_0(0)",
        "step[",
        "step[DECODE",
        "step[PREBUILT bs=3]",
        "step[UNKNOWN bs=3]",
        "step[DECODE bs=-3]",
        "decode[image.jpg]",
        "prefill",
        "ProfilerStep#3",
        "capture_32_DECODE",
    ],
)
def test_other_names_are_not_marks(name: str) -> None:
    assert parse_mark(name) is None


def test_drafts_of_speculative_decoding_are_told_from_the_passes_of_the_model() -> None:
    drafts = [parse_mark(f"step[{mode} bs=2]") for mode in ("DRAFT_EXTEND_V2", "DRAFT_LOOP", "TARGET_VERIFY")]
    assert [mark is not None and mark.is_draft for mark in drafts] == [True, True, False]


def test_the_mark_that_says_more_has_more_details() -> None:
    detailed = parse_mark("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)")
    plain = parse_mark("execute_context_0(0)_generation_32(32)")
    assert detailed is not None and plain is not None
    assert detailed.details > plain.details


def test_captures_name_their_size_and_kind() -> None:
    labels = ("capture_32_DECODE", "capture_8192_PIECEWISE", "capture_x", "execute_1")
    marks = [parse_capture(name) for name in labels]
    assert [(mark.batch, mark.mode) if mark else None for mark in marks] == [
        (32, "DECODE"),
        (8192, "PIECEWISE"),
        None,
        None,
    ]


def test_hostile_names_cost_nothing() -> None:
    with ends("reading marks", cpu_seconds=20):
        for start in ("execute_", "step[DECODE ", "decode[bs=1 tok=1 ", "[Executor] _forward_step "):
            for filler in ("(", "[", " a=1", "1", "sq1sk1"):
                for length in (100, 5_000, 200_000):
                    assert parse_mark(start + filler * length) is None
