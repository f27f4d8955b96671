"""The exporter of C++ projects: what it writes, and what no plan can make it write. Building is tested elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replay_plans import add, choice, listed, plan, storage, tensor, unit, value
from warplens.replay import cpp
from warplens.replay.cpp import literals, readable, schema_text
from warplens.replay.cpp.values import cpp_type
from warplens_run.base.errors import UsageError
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats.replay_plan import ReplayPlan, Unit

ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
GELU = "aten::gelu(Tensor self, *, str approximate='none') -> Tensor"


def export(made: ReplayPlan, folder: Path, **options: Any) -> list[Path]:
    return cpp.export(made, folder, **options)


def full_add(**facts: Any) -> Unit:
    made = replace(add(), schema=ADD, **facts)
    return replace(made, arguments=(*made.arguments, value("int", 1)))


def test_a_project_has_all_that_building_needs(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    written = export(plan(add()), folder)
    names = {str(path.relative_to(folder)) for path in written}
    assert {"CMakeLists.txt", "README.md", "plan.json", "src/main.cpp", "cmake/FindWheel.cmake"} <= names
    assert all(path.is_file() for path in written)
    assert {path for path in folder.rglob("*") if path.is_file()} == set(written)
    lists = (folder / "CMakeLists.txt").read_text()
    sources = {path.name for path in folder.glob("src/*.cpp")}
    assert sources == set(re.findall(r"src/(\w+\.cpp)", lists))
    assert cpp.BUILD_COMMAND in (folder / "README.md").read_text()
    assert not any(name.startswith("readable/") for name in names)


def test_the_plan_in_it_has_an_id(tmp_path: Path) -> None:
    made = plan(add(), versions={"torch": "2.13 µ"})
    export(made, tmp_path)
    exported = plan_file.load(tmp_path / "plan.json")
    assert exported == plan_file.with_id(made)
    assert json.loads((tmp_path / "plan.json").read_text())["id"] == exported.id != ""
    export(replace(made, id="my.plan"), tmp_path, force=True)
    assert json.loads((tmp_path / "plan.json").read_text())["id"] == "my.plan"


def test_a_folder_with_something_in_it_needs_force(tmp_path: Path) -> None:
    export(plan(full_add()), tmp_path, readable=True)
    with pytest.raises(UsageError, match="not empty"):
        export(plan(add()), tmp_path)
    before = (tmp_path / "src" / "main.cpp").stat().st_mtime_ns
    export(plan(add()), tmp_path, force=True)
    assert not (tmp_path / "readable" / "units.cpp").exists()
    assert (tmp_path / "src" / "main.cpp").stat().st_mtime_ns == before


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(UsageError, match="is not a folder"):
        export(plan(add()), path, force=True)
    with pytest.raises(UsageError, match="is not a directory"):
        export(plan(add()), path / "below")


def test_a_plan_with_what_json_lacks_is_written_as_words(tmp_path: Path) -> None:
    made = plan(unit("aten::add.Scalar", (value("float", float("-inf")),), id="u"))
    export(made, tmp_path)
    assert plan_file.load(tmp_path / "plan.json").units == made.units


def test_a_readable_call_is_what_a_person_would_write(tmp_path: Path) -> None:
    gelu = replace(unit("aten::gelu", (tensor(0, 4), value("str", "tanh")), (storage(4),)), schema=GELU)
    written = export(plan(full_add(), gelu), tmp_path, readable=True)
    assert {tmp_path / "readable" / "units.cpp", tmp_path / "readable" / "ops.cmake"} <= set(written)
    text = (tmp_path / "readable" / "units.cpp").read_text()
    assert "return outputs(at::add(self, other, /*alpha=*/at::Scalar(1)));" in text
    assert 'return outputs(at::gelu(self, /*approximate=*/"tanh"));' in text
    checks = (tmp_path / "readable" / "ops.cmake").read_text()
    assert 'warplens_op(WARPLENS_OP_0 add_Tensor add "at::Tensor,at::Tensor,at::Scalar" FALSE)' in checks


@pytest.mark.parametrize(
    ("name", "schema", "arguments", "wanted"),
    [
        (
            "aten::add_.Tensor",
            "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
            (tensor(0, 4), tensor(0, 4), value("float", 2)),
            "at::_ops::add__Tensor::call(self, other, /*alpha=*/at::Scalar(2.0))",
        ),
        (
            "aten::mm.out",
            "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)",
            (tensor(0, 2, 2), tensor(0, 2, 2), tensor(0, 2, 2)),
            "at::mm_out(out, self, mat2)",
        ),
        (
            "aten::expand",
            "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
            (tensor(0, 4), listed(value("int", 2), value("int", 4)), value("bool", False)),
            "at::_ops::expand::call(self, size, /*implicit=*/false)",
        ),
        (
            "aten::_foreach_add_.Scalar",
            "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()",
            (listed(tensor(0, 4)), value("int", 1)),
            "at::_foreach_add_(self, /*scalar=*/at::Scalar(1));\n  return {};",
        ),
    ],
)
def test_forms_of_calls(name: str, schema: str, arguments: tuple[Any, ...], wanted: str) -> None:
    found = readable.written_out(replace(unit(name, arguments, (storage(8),)), schema=schema))
    assert found is not None
    assert wanted in found.body


@pytest.mark.parametrize(
    "change",
    [
        {"schema": ""},
        {"schema": "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"},
        {"schema": "aten::add.Tensor(Tensor self, Tensor self, *, Scalar alpha=1) -> Tensor"},
        {"schema": ADD.replace("Scalar alpha=1", "Stream alpha")},
        {"op": "mine::add"},
        {"status": "refused"},
        {"arguments": (tensor(0, 4), choice(tensor(0, 4), tensor(1, 4)), value("int", 1))},
        {"arguments": (tensor(0, 4), tensor(1, 4))},
        {"arguments": (tensor(0, 4), tensor(1, 4), value("str", "1"))},
        {"arguments": (tensor(0, 4), value("int", 3), value("int", 1))},
        {"arguments": (tensor(0, 4), tensor(1, 4), value("int", 1 << 70))},
    ],
)
def test_what_is_not_certain_is_called_by_name(change: dict[str, Any]) -> None:
    assert readable.written_out(full_add()) is not None
    assert readable.written_out(replace(full_add(), **change)) is None


EVIL = 'x"); system("rm"); //\\\n*/ #include "/etc/passwd" ??/\u2028\x00'


def code_of(made: ReplayPlan) -> str:
    return "".join(readable.files(replace(made, id=EVIL)).values())


def test_no_text_of_a_plan_becomes_code() -> None:
    gelu = replace(unit("aten::gelu", (tensor(0, 4), value("str", EVIL)), (storage(4),)), schema=GELU, id=EVIL)
    made = plan(replace(gelu, reason=EVIL, category=EVIL, notes=(EVIL,)), trace_of(EVIL))
    text = code_of(made)
    assert "gelu" in text
    assert "system(" not in text
    bare = re.sub(r'"(\\[0-7]{3}|[A-Za-z0-9_ .:-])*"', "TEXT", text)
    assert "rm" not in re.findall(r"\w+", bare)
    # What is left are lines like those of a plan that means no harm.
    harmless = replace(gelu, id="u", arguments=(tensor(0, 4), value("str", "tanh")))
    assert bare == re.sub(r'"(\\[0-7]{3}|[A-Za-z0-9_ .:-])*"', "TEXT", code_of(plan(harmless)))


def trace_of(text: str) -> Unit:
    """A unit that is not written out, with odd text wherever one can stand."""
    return replace(add(text), status="refused", reason=text, schema=text, family=text)


@pytest.mark.parametrize(
    "schema",
    [
        f"aten::add.Tensor(Tensor self, Tensor {EVIL}, *, Scalar alpha=1) -> Tensor",
        "aten::add.Tensor(Tensor self, Tensor other;, *, Scalar alpha=1) -> Tensor",
        "aten::add.Tensor(Tensor self, Tensor */x, *, Scalar alpha=1) -> Tensor",
        "aten::add.Tensor(Tensor self, Tensor\nint x, *, Scalar alpha=1) -> Tensor",
        "aten::add.Tensor(Tensor self, Tensor öther, *, Scalar alpha=1) -> Tensor",
        "aten::add.Tensor(" * 50,
        "aten::add.Tensor(Tensor self",
    ],
)
def test_a_schema_that_is_none_is_not_used(schema: str) -> None:
    assert readable.written_out(replace(full_add(), schema=schema)) is None


@pytest.mark.parametrize("op", ["aten::add;x", "aten::ädd", "aten::add x", "at::add", "aten::", "aten::a\n"])
def test_only_plain_names_of_ops_are_written(op: str) -> None:
    assert readable.written_out(replace(full_add(), op=op, schema=ADD.replace("aten::add", op))) is None


def test_names_that_c_plus_plus_keeps_for_itself_are_changed() -> None:
    schema = "aten::add.Tensor(Tensor class, Tensor NULL, *, Scalar __x=1) -> Tensor"
    found = readable.written_out(replace(full_add(), schema=schema))
    assert found is not None
    assert "at::Tensor& own_class = tensors[0];" in found.body
    assert "at::Tensor& own_NULL = tensors[1];" in found.body


@pytest.mark.parametrize("value", [True, "1", None, 1 << 63, -(1 << 63), [1]])
def test_odd_numbers_are_not_written(value: Any) -> None:
    with pytest.raises(literals.NotWritten):
        literals.integer(value)


def test_every_dtype_of_plans_has_a_name_in_c_plus_plus() -> None:
    assert set(literals.DTYPES) == set(plan_file.DTYPES)


def test_the_program_knows_the_dtypes_and_versions_of_plans() -> None:
    source = (Path(cpp.__file__).parent / "project" / "src" / "plan.cpp").read_text()
    table = dict(re.findall(r'\{"(\w+)", (\d+)\}', source))
    assert {name: int(size) for name, size in table.items()} == plan_file.DTYPES
    assert f"newest_version = {plan_file.VERSION};" in source
    for word in (*plan_file.FILLS, *plan_file.ARGUMENTS, plan_file.FORMAT):
        assert f'"{word}"' in source


torch_types = [
    ("Tensor(a!)", "at::Tensor"), ("Tensor?[]", "c10::List<std::optional<at::Tensor>>"), ("int[2]", "at::IntArrayRef"),
    ("SymInt[]?", "at::OptionalSymIntArrayRef"), ("bool[3]", "std::array<bool,3>"), ("str?", "std::optional<std::string_view>"),
]  # fmt: skip


@pytest.mark.parametrize(("word", "wanted"), torch_types)
def test_types_are_those_of_the_headers(word: str, wanted: str) -> None:
    parsed = schema_text.parse(f"aten::f({word} x) -> Tensor")
    assert parsed is not None
    assert cpp_type(parsed.parameters[0].type) == wanted


def test_every_schema_of_pytorch_can_be_read() -> None:
    torch = pytest.importorskip("torch")
    schemas = [str(each) for each in torch._C._jit_get_all_schemas() if each.name.startswith("aten::")]
    assert len(schemas) > 1000
    unread = [text for text in schemas if schema_text.parse(text) is None]
    # Those of dictionaries, classes and any number of arguments belong to TorchScript.
    assert [text for text in unread if not any(word in text for word in ("Dict(", "...", "__torch__"))] == []


def test_plan_text_is_ascii_so_that_any_locale_can_read_it(tmp_path: Path) -> None:
    export(plan(add("µ")), tmp_path)
    assert json.loads((tmp_path / "plan.json").read_bytes().decode("ascii"))["units"][0]["id"] == "µ"
