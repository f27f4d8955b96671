"""TypeScript types of the records that Python writes into a page, from their JSON schema.

`make web` writes them to src/shared/generated/records.ts; a test compares. `python web/make_types.py`
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import msgspec

from warplens.outputs.html import records
from warplens_lab.pages import records as lab_records

PLACE = Path(__file__).parent / "src" / "shared" / "generated" / "records.ts"
HEAD = "// Made by web/make_types.py from the records of our pages: `make web` writes it, do not edit.\n"
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}

HEADERS = (
    records.ReportHeader,
    lab_records.KernelHeader,
    lab_records.CodeHeader,
    lab_records.LayoutHeader,
)

Schema = dict[str, Any]
"""JSON, as msgspec makes it."""


def typescript() -> str:
    """One interface per record that a header holds, in the order in which they are met."""
    _, components = msgspec.json.schema_components(HEADERS, ref_template="{name}")
    return "\n".join([HEAD, *(_interface(name, schema) for name, schema in components.items())])


def _interface(name: str, schema: Schema) -> str:
    required = set(schema["properties"]) if name not in _omitting() else set(schema["required"])
    fields = [
        f"  {field}{'' if field in required else '?'}: {_type(value)};" for field, value in schema["properties"].items()
    ]
    meaning = schema.get("description", "").split("\n\n")[0].replace("\n", " ")
    return "\n".join([f"/** {' '.join(meaning.split())} */", f"export interface {name} {{", *fields, "}", ""])


def _omitting() -> set[str]:
    """Records that leave out what has its usual value; all others always have every field."""
    classes = [each for module in (records, lab_records) for _, each in inspect.getmembers(module, inspect.isclass)]
    structs = [each for each in classes if issubclass(each, msgspec.Struct)]
    return {struct.__name__ for struct in structs if struct.__struct_config__.omit_defaults}


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"])
    if "enum" in schema:
        return " | ".join(msgspec.json.encode(value).decode() for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(map(_type, schema["anyOf"]))
    if schema["type"] == "array":
        return _array(schema)
    if schema["type"] == "object":
        return f"Record<string, {_type(schema['additionalProperties'])}>"
    return PLAIN[schema["type"]]


def _array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(map(_type, schema['prefixItems']))}]"
    item = _type(schema["items"])
    return f"({item})[]" if " | " in item and not item.endswith("]") else f"{item}[]"


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(typescript(), "utf-8")
