"""The page of compiled kernels, Python beside the compiler's texts: one file, with nothing to fetch."""

from __future__ import annotations

from dataclasses import fields

from warplens.outputs.html.pack import Packer
from warplens.outputs.html.page import assembled
from warplens_lab.pages import ASSETS
from warplens_lab.pages.records import CodeHeader, PackedCheck, PackedText
from warplens_lab.scenes.kernel_code import CodeCheck, CodeText, CompilationFacts, KernelCode


def code_page_bytes(code: KernelCode) -> bytes:
    """Compilations as a page. Text of theirs is only in the data, which is base64: none of it can become markup."""
    return assembled(f"{code.title} – compiled", "code", packed_code(code), assets=ASSETS)


def packed_code(code: KernelCode) -> bytes:
    packer = Packer()
    checks = [_check(check, packer) for check in code.checks]
    return packer.packed(CodeHeader(title=code.title, texts=list(packer.texts), notes=list(code.notes), checks=checks))


def _check(check: CodeCheck, packer: Packer) -> PackedCheck:
    facts = {field.name: getattr(check, field.name) for field in fields(CompilationFacts)}
    return PackedCheck(**facts, texts=[_text(text, packer) for text in check.texts])


def _text(text: CodeText, packer: Packer) -> PackedText:
    # Configs often share a text, above all the first: it is kept once.
    return PackedText(
        text.kind, packer.text(text.text), packer.add_ints(text.chains), packer.add_ints(text.bookkeeping)
    )
