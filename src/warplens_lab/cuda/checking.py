"""One call for `kernel check FILE.cu`: find the kernels, compile each for every target, read the facts, suggest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from warplens_lab.checking.checks import CheckResult, KernelCheck
from warplens_lab.cuda.compiling import CudaCompilation, compile_cuda
from warplens_lab.cuda.constants import Constants, number
from warplens_lab.cuda.facts import cuda_facts
from warplens_lab.cuda.request import CudaRequest
from warplens_lab.cuda.source import CudaKernel, CudaSource
from warplens_lab.cuda.text import blanked, code_only, functions, split_outside
from warplens_lab.suggesting.suggestions import suggest
from warplens_run.base.errors import UsageError


def check_cuda(request: CudaRequest) -> CheckResult:
    """The kernel that is named, or all kernels of the file."""
    file, name = request.file_and_kernel()
    source = CudaSource.read(file)
    targets = request.parsed_targets()
    chosen, notes = _named(source, file, name) if name else _all(source, file)
    compilations = [CudaCompilation(kernel, arguments, target) for kernel, arguments in chosen for target in targets]
    options = request.compile_options()
    compiled = compile_cuda(source, compilations, options, request.includes, cache=request.cache)
    checks = []
    for compilation, artefacts in zip(compilations, compiled, strict=True):
        facts = cuda_facts(artefacts, compilation, source, request)
        suggestions = suggest(facts, grid=request.grid, card=request.card)
        checks.append(
            KernelCheck(facts, tuple(suggestions), 0, artefacts, request.grid, is_grid_given=bool(request.grid))
        )
    listed = (str(text) for artefacts in compiled for text in artefacts.metadata.get("warnings", ()))
    warnings = (text for text in listed if text.startswith(f"{source.path}("))
    facts_notes = (note for check in checks for note in check.facts.notes)
    return CheckResult(tuple(checks), tuple(dict.fromkeys([*notes, *facts_notes, *warnings])))


_WORDS: Final = frozenset({
    "float", "double", "int", "unsigned", "signed", "char", "short", "long", "bool", "true", "false", "const", "half",
    "half2", "__half", "__half2", "__nv_bfloat16", "__nv_bfloat162", "nv_bfloat16", "float2", "float4", "int2", "int4",
    "uint2", "uint4", "double2", "size_t", *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
})  # fmt: skip
"""Types that any file may name."""
Chosen = list[tuple[CudaKernel, str]]


def _named(source: CudaSource, file: str, name: str) -> tuple[Chosen, list[str]]:
    plain, _, rest = name.partition("<")
    kernel = source.named(plain)
    if kernel is None:
        raise UsageError(f"{source.path.name} has no kernel {plain}", hint=_listed(source))
    arguments = rest.rstrip().removesuffix(">").strip()
    if kernel.template and not arguments:
        launched = list(_launched(source, kernel))
        if not launched:
            raise UsageError(f"{plain} is a template", hint=f"name its arguments: {file}::{_example(kernel)}")
        return [(kernel, text) for text in launched], []
    return [(kernel, arguments)], []


def _all(source: CudaSource, file: str) -> tuple[Chosen, list[str]]:
    """Templates as the file's own launches instantiate them; others are named in a note."""
    if not source.kernels:
        raise UsageError(f"{source.path.name} has no kernel", hint="kernels are functions with __global__")
    chosen: Chosen = []
    notes = []
    for kernel in source.kernels.values():
        instances = list(_launched(source, kernel)) if kernel.template else [""]
        chosen += [(kernel, arguments) for arguments in instances]
        if not instances:
            notes.append(
                f"{kernel.name} is a template whose arguments are not known: name them, {file}::{_example(kernel)}"
            )
    if not chosen:
        raise UsageError(
            f"the kernels of {source.path.name} are templates", hint=f"name one with its arguments: {_listed(source)}"
        )
    return chosen, notes


def _launched(source: CudaSource, kernel: CudaKernel) -> Iterator[str]:
    """Arguments of the template in the file's launches, where these are not names of another template."""
    names = (kernel.name, kernel.plain_name)
    launched = dict.fromkeys(
        launch.arguments for launch in source.launches if launch.name in names and launch.arguments
    )
    constants = Constants(source.text)
    return (text for text in launched if all(_is_plain(part, source, constants) for part in split_outside(text)))


def _is_plain(argument: str, source: CudaSource, constants: Constants) -> bool:
    """A number, or a type that C++ or the file names: not a parameter of the function that launches."""
    words = set(re.findall(r"[A-Za-z_]\w*", argument))
    if number(argument, constants) is not None or words <= _WORDS:
        return True
    outside = code_only(blanked(source.text, functions(source.text)))
    own = re.findall(r"\b(?:struct|class|using|typedef [\w ]{1,200})\s+(\w+)\s*[={;:]", outside)
    return words - _WORDS <= set(own)


def _example(kernel: CudaKernel) -> str:
    words = [
        "float" if parameter.type.split()[0] in ("typename", "class") else "true" if "bool" in parameter.type else "256"
        for parameter in kernel.template
    ]
    return f"{kernel.name}<{', '.join(words)}>"


def _listed(source: CudaSource) -> str:
    names = [_example(kernel) if kernel.template else kernel.name for kernel in source.kernels.values()]
    return f"kernels there: {', '.join(names)}" if names else "kernels are functions with __global__"
