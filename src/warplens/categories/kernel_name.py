"""A kernel's name taken apart once, so that every rule looks at the same three views of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Final

import msgspec

from warplens.categories.demangling import demangle, is_mangled, mangled_arguments, mangled_function

# Longer names are cut: the start says what the kernel is, and the time to match stays bounded.
MAX_CHARS = 16_384
_MAX_TEXT_CHARS = 4_096  # what the patterns see; quadratic searches stay below a tenth of a second

_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::", "`anonymous-namespace'::")
_UP_TO_BRACKET = re.compile(r"[^<>,]*")
# Not an end of template arguments: an arrow, and a comparison outside of parentheses.
_BRACKETS = re.compile(r"[(<)]|(?<![-=])>(?!=| ?\(\d)")
# Names of a library and of a model family that hold the word gemm and say nothing about the kernel.
_MISLEADING = re.compile(r"fbgemm_gpu::|(?<![a-z])gemma(?=[\d_]|rms|norm)")
_RETURN_TYPE = re.compile(r"^(?:static |inline |__global__ )*void\s+")
# A return type that only chooses an overload: std::enable_if<…>::type, std::void_t<…>.
_CHOOSING_TYPE = re.compile(r"enable_if|void_t<|>::type$")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class KernelName(msgspec.Struct, dict=True):
    """One name in the views the rules use; not changed after it is made."""

    raw: str  # as the trace has it
    text: str  # readable, with template arguments, without return type and parameter list
    function: str  # the kernel's own qualified name, without template arguments
    lower_text: str
    lower_function: str

    @cached_property
    def words(self) -> frozenset[str]:
        """The lower-case words of `function`: split at _, ::, digits and capitals."""
        return frozenset(" ".join(_WORD.findall(self.function)).lower().split())


_OF_TYPE: Final = "typeinfo name for "
"""What demanglers put before the type of a functor, by which SYCL names its kernels (`_ZTS…`)."""


@lru_cache(maxsize=4096)
def parse_kernel_name(raw: str) -> KernelName:
    """Takes a name apart; works on any text, however odd."""
    name = demangle(raw[:MAX_CHARS])[:MAX_CHARS]
    if is_mangled(name):
        function = mangled_function(name) or name
        text = function + mangled_arguments(name)
    else:
        text, function = _split_cpp(name.removeprefix(_OF_TYPE))
    text, function = text[:_MAX_TEXT_CHARS], function[:_MAX_TEXT_CHARS]
    lower_text, lower_function = text.lower(), function.lower()
    if "gemm" in lower_function:
        lower_text, lower_function = _MISLEADING.sub("", lower_text), _MISLEADING.sub("", lower_function)
    return KernelName(raw, text, function, lower_text, lower_function)


def _split_cpp(name: str) -> tuple[str, str]:
    text = name.split(" [clone ", 1)[0].strip().removesuffix(".kd")
    if "(" not in text and "<" not in text:
        return text, text
    for spelling in _ANONYMOUS:
        text = text.replace(spelling, "")
    text = _RETURN_TYPE.sub("", text)
    text, outside = _outside_brackets(text)
    start = _start_of_own_name(text, outside)
    function = "".join(text[max(first, start) : end] for first, end in outside if end > start).strip()
    if _CHOOSING_TYPE.search(text, 0, max(start - 1, 0)):
        text = text[start:]
    return text, function or text


def _outside_brackets(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text up to the parameter list, and the ranges of it that are not template arguments."""
    position = 0
    outside: list[tuple[int, int]] = []
    while True:
        template, parameters = text.find("<", position), text.find("(", position)
        if parameters > 0 and (template < 0 or parameters < template):
            text = text[:parameters].rstrip()
            return text, [*outside, (position, len(text))]
        if template < 0:
            return text, [*outside, (position, len(text))]
        outside.append((position, template))
        position = _end_of_template(text, template)


def _start_of_own_name(text: str, outside: list[tuple[int, int]]) -> int:
    """What precedes the last blank outside of brackets is a return type: std::enable_if<…>::type f<…>."""
    return next((blank + 1 for first, end in reversed(outside) if (blank := text.rfind(" ", first, end)) >= 0), 0)


def _end_of_template(text: str, start: int) -> int:
    # A > inside parentheses that were opened after the < compares: enable_if<((8)>(0)), …>.
    opened: list[str] = []
    parentheses = 0
    for match in _BRACKETS.finditer(text, start):
        bracket = match.group()
        if bracket in "(<":
            opened.append(bracket)
            parentheses += bracket == "("
        elif bracket == ")" and parentheses:
            while opened.pop() != "(":
                pass
            parentheses -= 1
        elif bracket == ">" and opened[-1] == "<":
            opened.pop()
            if not opened:
                return match.end()
    return len(text)


def template_arguments(text: str, position: int) -> Iterator[str]:
    """The template arguments that start at a position, each without arguments of its own."""
    while position < len(text):
        head = _UP_TO_BRACKET.match(text, position)
        assert head is not None  # it matches nothing as well
        yield head.group().strip()
        position = head.end()
        while text.startswith("<", position):
            rest = _UP_TO_BRACKET.match(text, _end_of_template(text, position))
            position = rest.end() if rest else len(text)
        if not text.startswith(",", position):
            return
        position += 1


def any_in(parts: tuple[str, ...], text: str) -> bool:
    """Whether the text holds any of the parts."""
    # Not any(…): this is the inner loop of matching, and a generator costs more than the few searches.
    for part in parts:  # noqa: SIM110
        if part in text:
            return True
    return False
