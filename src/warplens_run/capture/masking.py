"""What a bundle must not hold: passwords, tokens and keys from the environment and the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MASK: Final = "***"
SECRET_VARIABLE: Final = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
SECRET_OPTION: Final = re.compile(r"--?(?:[\w-]*[-_])?(?:token|key|secret|password|passwd|credentials?)", re.IGNORECASE)
"""`--hf-token`, `--api_key`; not `--new-tokens` or `--tokenizer`, which a reader wants to know."""
SECRET_VALUE: Final = re.compile(
    r"(?<=://)[^/@\s:]+:[^/@\s]+(?=@)"  # a name and password in an address
    r"|\b(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abp]-|AKIA)[\w-]{12,}"  # keys of services, by how they begin
    r"|(?<=[?&](?i:token)=)[^&\s]+"
)


def masked(text: str) -> str:
    """A text without what is plainly a secret.

    >>> masked("http://me:pass@proxy:80")
    'http://***@proxy:80'
    """
    return SECRET_VALUE.sub(MASK, text)


def without_secrets(words: Sequence[str]) -> list[str]:
    """A command line without the values of options for secrets.

    >>> without_secrets(["train.py", "--hf-token", "abc", "--api_key=def", "--new-tokens", "8"])
    ['train.py', '--hf-token', '***', '--api_key=***', '--new-tokens', '8']
    """
    shown: list[str] = []
    is_secret = False
    for word in words:
        option, equals, _ = word.partition("=")
        if SECRET_OPTION.fullmatch(option):
            shown.append(option + equals + MASK if equals else word)
            is_secret = not equals
        else:
            shown.append(MASK if is_secret and not word.startswith("-") else masked(word))
            is_secret = False
    return shown
