"""Names of the forward passes of a model that generates: what a serving engine's iterations are called in a trace.

`c_` are sums over the requests that read their prompt, `g_` over those that generate: `sq` new tokens, `sk` tokens that
attention reads (those of the cache and the new ones), `sqsq` and `sqsk` the products of the two for each request.
"""

from __future__ import annotations


def prefill_mark(requests: int, tokens: int) -> str:
    """A pass over whole prompts of one length.

    >>> prefill_mark(2, 128)
    'generate[EXTEND bs=2 c_sq=256 c_sk=256 c_sqsq=32768 c_sqsk=32768]'
    """
    total, squares = requests * tokens, requests * tokens**2
    return f"generate[EXTEND bs={requests} c_sq={total} c_sk={total} c_sqsq={squares} c_sqsk={squares}]"


def decode_mark(requests: int, keys: int) -> str:
    """A pass that makes one token of each request; `keys` are the tokens of one in the cache, with the new one.

    >>> decode_mark(2, 129)
    'generate[DECODE bs=2 g_sq=2 g_sk=258 g_sqsq=2 g_sqsk=258]'
    """
    total = requests * keys
    return f"generate[DECODE bs={requests} g_sq={requests} g_sk={total} g_sqsq={requests} g_sqsk={total}]"
