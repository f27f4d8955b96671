"""The page of compiled kernels, Python beside the compiler's texts: one file, with nothing to fetch."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from importlib.resources import files
from typing import Any

from warplens import __version__
from warplens.model.kernel_code import CodeCheck, CodeText, KernelCode
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.page import PAGE, POLICY


def code_page_bytes(code: KernelCode) -> bytes:
    """Compilations as a page. Text of theirs is only in the data, which is base64: none of it can become markup."""
    assets = files("warplens.outputs") / "assets"
    return PAGE.format(
        policy=POLICY,
        title=escape(f"{code.title} – compiled"),
        style=(assets / "code.css").read_text("utf-8"),
        data=packed_code(code).decode("ascii"),
        script=(assets / "code.js").read_text("utf-8"),
    ).encode("utf-8", errors="replace")


def packed_code(code: KernelCode) -> bytes:
    packer = Packer()
    header: dict[str, Any] = {
        "warplens": __version__,
        "title": code.title,
        "notes": code.notes,
        "checks": [_check(check, packer) for check in code.checks],
    }
    return packer.packed(header)


def _check(check: CodeCheck, packer: Packer) -> dict[str, Any]:
    rest = {each.name: getattr(check, each.name) for each in fields(check) if each.name != "texts"}
    return rest | {"texts": [_text(text, packer) for text in check.texts]}


def _text(text: CodeText, packer: Packer) -> dict[str, Any]:
    # Configs often share a text, above all the first: it is kept once.
    return {
        "kind": text.kind,
        "text": packer.text(text.text),
        "chains": packer.add_ints(text.chains),
        "bookkeeping": packer.add_ints(text.bookkeeping),
    }
