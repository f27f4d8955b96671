"""Writes `op_schemas.txt`: what PyTorch's own ops take, for traces that name an op but not its overload.

Run with the PyTorch whose ops are to be listed: python -m warplens.planning.make_schemas
"""

from __future__ import annotations

from pathlib import Path

from warplens_run.base.files import write_whole

ODD = ("hacked_twin", "Dimname", "...")
"""Overloads that no trace of a GPU holds."""
TARGET = Path(__file__).with_name("op_schemas.txt")


def main() -> None:
    import torch

    names = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    schemas = {
        str(schema)
        for name in names
        for schema in torch._C._jit_get_schemas_for_operator(name)
        if "Tensor" in str(schema) and not any(odd in str(schema) for odd in ODD)
    }
    version = ".".join(torch.__version__.split(".")[:2])
    head = f"# ops of PyTorch {version}, made by make_schemas.py\n"
    write_whole(TARGET, (head + "".join(f"{schema}\n" for schema in sorted(schemas))).encode())


if __name__ == "__main__":
    main()
