"""Arguments of a call as C++ expressions of the types that PyTorch's headers take, by the words of the schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from warplens.replay.cpp import literals
from warplens.replay.cpp.literals import NotWritten
from warplens.replay.cpp.schema_text import SchemaParameter
from warplens_run.formats.replay_plan import Argument

SIZED: Final = re.compile(r"\[(\d*)\]")
TYPES: Final = {
    # a schema's word: how headers say it, without `const`, `&` and spaces
    "Tensor": "at::Tensor", "Tensor?": "std::optional<at::Tensor>", "Tensor[]": "at::TensorList",
    "Tensor?[]": "c10::List<std::optional<at::Tensor>>", "int": "int64_t", "int?": "std::optional<int64_t>",
    "int[]": "at::IntArrayRef", "int[]?": "at::OptionalIntArrayRef", "SymInt": "c10::SymInt",
    "SymInt?": "std::optional<c10::SymInt>", "SymInt[]": "c10::SymIntArrayRef",
    "SymInt[]?": "at::OptionalSymIntArrayRef", "float": "double", "float?": "std::optional<double>",
    "float[]?": "std::optional<at::ArrayRef<double>>", "float[]": "at::ArrayRef<double>", "bool": "bool",
    "bool?": "std::optional<bool>", "Scalar": "at::Scalar", "Scalar?": "std::optional<at::Scalar>",
    "Scalar[]": "at::ArrayRef<at::Scalar>", "ScalarType": "at::ScalarType",
    "ScalarType?": "std::optional<at::ScalarType>", "Layout": "at::Layout", "Layout?": "std::optional<at::Layout>",
    "MemoryFormat": "at::MemoryFormat", "MemoryFormat?": "std::optional<at::MemoryFormat>", "Device": "at::Device",
    "Device?": "std::optional<at::Device>", "str": "std::string_view", "str?": "std::optional<std::string_view>",
    "Generator?": "std::optional<at::Generator>",
}  # fmt: skip
BOOLS: Final = re.compile(r"bool\[(\d)\]")
RESERVED: Final = frozenset(
    # words that a local variable cannot have, among those that schemas use as names or might
    """alignas alignof and asm auto bool break case catch char class compl concept const constexpr continue decltype
    default delete device do double else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not nullptr operator or private protected public register requires return short
    signed sizeof static struct switch template tensors this throw true try typedef typeid typename union unsigned
    using virtual void volatile while xor outputs at c10 std""".split()  # noqa: SIM905
)
ABSENT: Final = ("none", "undefined")


@dataclass
class CppCall:
    """A call that is being written: lines before it, and how many tensors are used up."""

    symbolic: bool
    """Lists of sizes are SymInts, as at::_ops takes them; at:: itself takes plain numbers."""
    lines: list[str] = field(default_factory=list)
    tensors: int = 0

    def tensor(self) -> str:
        self.tensors += 1
        return f"tensors[{self.tensors - 1}]"

    def name(self, parameter: str) -> str:
        # Words in capitals may be macros, those that begin with _ belong to the compiler.
        is_free = parameter not in RESERVED and not parameter.startswith("_") and parameter.islower()
        return parameter if is_free else f"own_{parameter.strip('_')}"


def cpp_type(word: str) -> str:
    """
    >>> cpp_type("SymInt[2]?"), cpp_type("bool[3]")
    ('at::OptionalSymIntArrayRef', 'std::array<bool,3>')
    """
    bools = BOOLS.fullmatch(word)
    if bools is not None:
        return f"std::array<bool,{bools[1]}>"
    type_name = TYPES.get(SIZED.sub("[]", word))
    if type_name is None:
        raise NotWritten(f"no type: {word}")
    return type_name


def argument_of(argument: Argument, parameter: SchemaParameter, call: CppCall) -> str:
    """The expression; what needs a name of its own is added to the call's lines."""
    kind = parameter.type
    cpp_type(kind)  # of a type that is known
    if kind.startswith("Tensor"):
        return _tensors(argument, parameter, call)
    if argument.kind in ABSENT:
        if not kind.endswith("?"):
            raise NotWritten("a required value is missing")
        return f"/*{parameter.name}=*/std::nullopt"
    plain = kind.removesuffix("?")
    if "[" in plain:
        return _list(argument, parameter, plain, call)
    return f"/*{parameter.name}=*/{_value(argument, plain)}"


def _value(argument: Argument, kind: str) -> str:
    if kind == "Scalar":
        return literals.scalar(argument.kind, argument.value)
    kinds, write = SINGLE[kind]
    if argument.kind not in kinds:
        raise NotWritten(f"a {argument.kind} for {kind}")
    return write(argument.value)


SINGLE: Final[dict[str, tuple[tuple[str, ...], Callable[[object], str]]]] = {
    # a schema's word: the kinds of argument that fit it, and how they are written
    "int": (("int",), literals.integer),
    "SymInt": (("int",), literals.integer),
    "float": (("float", "int"), literals.real),
    "bool": (("bool",), literals.boolean),
    "str": (("str",), literals.text),
    "ScalarType": (("dtype",), lambda value: literals.named(value, literals.DTYPES, "ScalarType")),
    "Layout": (("layout",), lambda value: literals.named(value, literals.LAYOUTS, "Layout")),
    "MemoryFormat": (("memory_format",), lambda value: literals.named(value, literals.MEMORY_FORMATS, "MemoryFormat")),
    "Device": (("device",), literals.device),
}


def _list(argument: Argument, parameter: SchemaParameter, kind: str, call: CppCall) -> str:
    if argument.kind != "list":
        raise NotWritten("a single value for a list")
    element = SIZED.sub("", kind)
    values = ", ".join(_value(item, element) for item in argument.items)
    if element == "bool":
        size = BOOLS.fullmatch(kind)
        if size is None or int(size[1]) != len(argument.items):
            raise NotWritten("a different number of flags")
        return f"/*{parameter.name}=*/std::array<bool, {size[1]}>{{{values}}}"
    types = {"int": "int64_t", "SymInt": "c10::SymInt" if call.symbolic else "int64_t", "float": "double",
             "Scalar": "at::Scalar"}  # fmt: skip
    if element not in types:
        raise NotWritten(f"a list of {element}")
    name = call.name(parameter.name)
    call.lines.append(f"const std::vector<{types[element]}> {name} = {{{values}}};")
    return name


def _tensors(argument: Argument, parameter: SchemaParameter, call: CppCall) -> str:
    name = call.name(parameter.name)
    if parameter.type in ("Tensor", "Tensor?"):
        if argument.kind == "tensor":
            call.lines.append(f"at::Tensor& {name} = {call.tensor()};")
            return name
        if argument.kind not in ABSENT or parameter.written:
            raise NotWritten(f"a {argument.kind} for a tensor")
        empty = "std::nullopt" if parameter.type.endswith("?") else "at::Tensor()"
        return f"/*{parameter.name}=*/{empty}"
    if argument.kind != "list":
        raise NotWritten("no list")
    if parameter.type == "Tensor[]":
        values = [_item(item, call, "at::Tensor()") for item in argument.items]
        call.lines.append(f"const std::vector<at::Tensor> {name} = {{{', '.join(values)}}};")
        return name
    values = [_item(item, call, "std::nullopt") for item in argument.items]
    call.lines.append(f"c10::List<std::optional<at::Tensor>> {name};")
    call.lines += [f"{name}.push_back({value});" for value in values]
    return name


def _item(item: Argument, call: CppCall, empty: str) -> str:
    if item.kind == "tensor":
        return call.tensor()
    if item.kind in ABSENT:
        return empty
    raise NotWritten(f"a {item.kind} among tensors")
