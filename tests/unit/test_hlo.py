"""HLO modules: what their messages say, which callers an instruction has, and which events run it."""

from __future__ import annotations

import random

import pytest

from protobuf_bytes import encode, varint
from warplens.readers.shared.protobuf_wire import Damage, Fields, Message, fields_of, varints
from warplens.readers.xplane.hlo import HloInstruction, HloModule, HloOrigin, read_module
from warplens.readers.xplane.match import MatchedOp, Matcher, family, kernel_name
from warplens.readers.xplane.scopes import callers_of, path_of

STACK = encode(
    (1, "model.py"), (2, "main"), (2, "attend"),
    (3, encode((1, 1), (2, 1), (3, 90))), (3, encode((1, 1), (2, 2), (3, 12))), (3, encode((1, 1), (3, 13))),
    (4, encode((1, 1))), (4, encode((1, 2), (2, 1))), (4, encode((1, 3), (2, 2))), (4, encode((1, 1), (2, 5))),
    (4, encode((1, 2), (2, 4))),
)  # fmt: skip


def metadata(op_name: str = "", frame: int = 0, file: str = "", line: int = 0) -> bytes:
    return encode((2, op_name), (3, file), (4, line), (15, frame))


def raw_instruction(
    number: int, name: str, opcode: str, about: bytes = b"", called: bytes = b"", target: str = ""
) -> bytes:
    return encode((1, name), (2, opcode), (7, about), (28, target), (35, number), (38, called))


def computation(number: int, root: int, *instructions: bytes, fused: bool = False) -> bytes:
    return encode((1, "c"), *((2, each) for each in instructions), (5, number), (6, root), (7, int(fused)))


def module(*computations: bytes, order: dict[int, list[int]] | None = None) -> HloModule:
    sequences = [
        encode((1, number), (2, encode((1, b"".join(varint(each) for each in numbers)))))
        for number, numbers in (order or {}).items()
    ]
    schedule = encode(*((1, sequence) for sequence in sequences))
    content = encode((1, "jit_f"), *((3, each) for each in computations), (7, schedule), (17, STACK))
    damage = Damage()
    found = read_module(encode((1, content)), damage)
    assert damage == Damage()
    return found


def test_instructions_with_their_frames_in_the_order_of_the_schedule() -> None:
    found = module(
        computation(
            1,
            12,
            raw_instruction(11, "add.1", "add", metadata("jit(f)/add", frame=2)),
            raw_instruction(12, "custom-call.2", "custom-call", metadata("jit(f)/dot"), target="__cublas$gemm"),
        ),
        order={1: [12, 11]},
    )
    assert found.instructions["add.1"] == HloInstruction(
        "add.1", "add", HloOrigin("jit(f)/add", ("model.py(90): main", "model.py(12): attend"))
    )
    assert found.instructions["custom-call.2"].target == "__cublas$gemm"
    assert [[each.name for each in schedule] for schedule in found.schedules] == [["custom-call.2", "add.1"]]


def test_an_empty_fusion_takes_the_origin_of_its_root_else_of_the_last_inside() -> None:
    inside = (
        raw_instruction(21, "p", "parameter", metadata("x")),
        raw_instruction(22, "mul.1", "multiply", metadata("jit(f)/mul", frame=1)),
        raw_instruction(23, "add.1", "add", metadata("jit(f)/add")),
        raw_instruction(24, "convert.1", "convert"),
    )
    fusion = raw_instruction(11, "fusion.1", "fusion", metadata(""), called=varint(2))
    for root, op_name in ((22, "jit(f)/mul"), (24, "jit(f)/add")):
        found = module(computation(2, root, *inside, fused=True), computation(1, 11, fusion))
        assert found.instructions["fusion.1"].origin.op_name == op_name
        assert set(found.instructions) == {"fusion.1"}  # what is inside runs under the fusion's name


@pytest.mark.parametrize(
    ("about", "frames"),
    [
        (
            metadata("a/b", frame=3),
            ("model.py(90): main", "model.py(12): attend", "model.py(13): (function not recorded)"),
        ),
        (metadata("a/b", file="x.py", line=7), ("x.py(7): (function not recorded)",)),
        (metadata("a/b", frame=99), ()),
        (metadata("a/b", frame=5), ("model.py(90): main", "model.py(12): attend")),  # 4 and 5 call each other
    ],
)
def test_frames(about: bytes, frames: tuple[str, ...]) -> None:
    found = module(computation(1, 11, raw_instruction(11, "add.1", "add", about)))
    assert found.instructions["add.1"].origin.frames == frames


def test_damage_never_raises() -> None:
    content = encode(
        (1, encode((3, computation(1, 11, raw_instruction(11, "a", "add", metadata("a/b", 2)))), (17, STACK)))
    )
    source = random.Random(1)
    for _ in range(2000):
        broken = bytearray(content)
        for _ in range(source.randint(1, 4)):
            broken[source.randrange(len(broken))] = source.randrange(256)
        read_module(bytes(broken), Damage())
    for size in range(len(content)):
        read_module(content[:size], Damage())


@pytest.mark.parametrize(
    ("op_name", "path"),
    [
        ("jit(step)/jvp(layer0)/dot_general", ["jit(step)", "layer0", "dot_general"]),
        ("jit(step)/transpose(jvp(layer0))/attn/mul", ["jit(step)", "layer0", "attn", "(backward)", "mul"]),
        ("jit(step)/jvp()/add", ["jit(step)", "add"]),
        ("jit(step)/transpose(jvp())/add", ["jit(step)", "(backward)", "add"]),
        ("jit(f)/vmap(jvp(X))/add", ["jit(f)", "vmap(X)", "add"]),
        ("jit(f)/transpose(jvp(vmap()))/add", ["jit(f)", "(backward)", "add"]),
        ("jit(f)/jvp(a/b)/transpose", ["jit(f)", "a/b", "transpose"]),
        ("jit(f)/jvp(jit(gelu))/tanh", ["jit(f)", "jit(gelu)", "tanh"]),
        ("jit(f)/while/body/add", ["jit(f)", "while", "body", "add"]),
        ("jit(f)/jit(g)", ["jit(f)", "jit(g)"]),
        ("jit(f)/:)/add", ["jit(f)", ":)", "add"]),
        ("params['w']", []),
        ("", []),
    ],
)
def test_the_path_of_an_op_name(op_name: str, path: list[str]) -> None:
    assert [name for _, name in path_of(op_name)] == path


def test_kinds_of_callers() -> None:
    found = callers_of(HloOrigin("jit(f)/transpose(jvp(l))/mul", ("a.py(1): f",)))
    assert [kind for kind, _ in found] == ["python", "annotation", "annotation", "other", "op"]


def fusion(name: str, op_name: str, *frames: str) -> HloInstruction:
    return HloInstruction(name, "fusion", HloOrigin(op_name, frames))


def call(name: str, op_name: str, target: str = "__gemm") -> HloInstruction:
    return HloInstruction(name, "custom-call", HloOrigin(op_name), target)


def matcher(*schedules: tuple[HloInstruction, ...]) -> Matcher:
    return Matcher(HloModule({each.name: each for schedule in schedules for each in schedule}, schedules))


def names(found: list[MatchedOp | None]) -> list[tuple[str, str] | None]:
    """The op and the instruction of each event."""
    return [each and (each.op, each.instruction.name) for each in found]


LAYERS = (
    fusion("fusion.7", "a/mul"),
    HloInstruction("bitcast.1", "bitcast", HloOrigin()),
    call("custom-call.1", "a/dot"),
    fusion("add.2", "a/add"),
    fusion("fusion.8", "b/mul"),
    call("custom-call.2", "b/dot"),
    fusion("add.3", "b/add"),
)


def test_one_kernel_for_equal_instructions_is_told_apart_by_the_order() -> None:
    found = matcher(LAYERS).in_order(["fusion_7", "Memset 0", "nvjet", "add_2", "fusion_7", "nvjet", "add_2"])
    assert names(found) == [
        ("fusion.7", "fusion.7"),
        ("custom-call __gemm", "custom-call.1"),
        ("custom-call __gemm", "custom-call.1"),
        ("add.2", "add.2"),
        ("fusion.7", "fusion.8"),
        ("custom-call __gemm", "custom-call.2"),
        ("add.2", "add.3"),
    ]


def test_two_library_calls_in_a_row_take_one_kernel_each_and_a_fill_goes_with_the_next() -> None:
    two = (fusion("fusion.1", "x"), call("custom-call.1", "y"), call("custom-call.2", "z"))
    found = matcher(two).in_order(["fusion_1", "gemm", "Memset 0", "gemm", "Memset 0"])
    assert [each and each[1] for each in names(found)] == [
        "fusion.1",
        "custom-call.1",
        "custom-call.2",
        "custom-call.2",
        "custom-call.2",
    ]
    assert names(matcher(two).in_order(["fusion_1", "gemm", "gemm", "gemm"]))[1:] == [None, None, None]


def test_a_part_of_the_schedule_is_found_where_the_names_say_which() -> None:
    found = matcher(LAYERS).in_order(["fusion_8", "nvjet", "add_3"])
    assert [each and each[1] for each in names(found)] == ["fusion.8", "custom-call.2", "add.3"]


def test_where_the_order_does_not_fit_the_name_counts_and_what_its_family_shares() -> None:
    one, other = (
        fusion("fusion.7", "a/mul", "m.py(1): main", "m.py(2): a"),
        fusion("fusion.8", "b/mul", "m.py(1): main"),
    )
    lone = fusion("add.2", "a/add", "m.py(1): main")
    found = matcher((one, lone, other)).in_order(["add_2", "fusion_7", "fusion_7", "nvjet"])
    assert [each and each.instruction.origin for each in found] == [
        HloOrigin("a/add", ("m.py(1): main",)),
        HloOrigin("", ("m.py(1): main",)),
        HloOrigin("", ("m.py(1): main",)),
        None,
    ]


def test_an_event_may_name_its_instruction_but_not_a_part_of_the_program() -> None:
    found = matcher((fusion("fusion.7", "a/mul"), HloInstruction("call.1", "call", HloOrigin())))
    assert found.named("fusion.7") == MatchedOp("fusion.7", fusion("fusion.7", "a/mul"))
    assert found.named("call.1") is None and found.named("command_buffer_1") is None


def test_names_of_kernels() -> None:
    assert kernel_name("loop_add_fusion.12") == kernel_name("loop_add_fusion_12.kd") == "loop_add_fusion_12"
    assert kernel_name("fusion__1") == "fusion"
    assert family("gemm_fusion_dot.16") == family("gemm_fusion_dot_3") == "gemm_fusion_dot"


def sound_and_slow(data: bytes) -> tuple[Fields, Fields]:
    damage = Damage()
    slow = [
        (number, value if isinstance(value, int) else bytes(value.view))
        for number, value in Message(memoryview(data)).fields(damage)
    ]
    return fields_of(data, Damage()), slow


def test_the_quick_way_and_the_careful_way_read_the_same() -> None:
    source = random.Random(2)
    whole = encode((1, 300), (2, "text"), (3, 1.5), (4, -2), (5, b""), (900, 7)) + b"\x35abcd"
    for _ in range(3000):
        data = bytearray(whole)
        if source.random() < 0.8:
            data[source.randrange(len(data))] = source.randrange(256)
        quick, slow = sound_and_slow(bytes(data[: source.randint(0, len(data))]))
        assert quick == slow


def test_packed_numbers() -> None:
    assert varints(varint(1) + varint(300)) == [1, 300]
    assert varints(7) == [7]
    assert varints(b"\x01\xff") == [1]
