"""Greedy generation: one prefill of the prompt, then token by token with a KV cache.

The prefill makes the first new token, so N new tokens are N − 1 decode steps. A compiled model or a CUDA graph needs
tensors that stay where they are; these use the static cache of transformers, plain runs the growing one.
"""

from __future__ import annotations

from typing import Any

from warplens_run.workloads.build import Built
from warplens_run.workloads.graphs import WARMUPS, Work, captured
from warplens_run.workloads.inputs import make_feed
from warplens_run.workloads.libraries import load_torch, transformers_class
from warplens_run.workloads.marks import decode_mark, prefill_mark
from warplens_run.workloads.options import WorkloadPlan
from warplens_run.workloads.phases import PhaseScopes
from warplens_run.workloads.worker import Worker


def make_generation(plan: WorkloadPlan, built: Built, worker: Worker, phases: PhaseScopes) -> Work:
    """An iteration that returns the new tokens, one row per sequence."""
    torch = load_torch()
    ids = make_feed(plan, built, worker).data
    if not (plan.options.compile or plan.options.cuda_graph):
        return lambda: _generate(torch, plan, built.module, ids, phases)
    decoder = StaticDecoder(torch, plan, built, ids).prepare()
    return lambda: decoder.generate(phases)


def _generate(torch: Any, plan: WorkloadPlan, module: Any, ids: Any, phases: PhaseScopes) -> Any:
    with torch.no_grad():
        with phases("prefill", tokens=ids.numel()), phases.forward_pass(prefill_mark(*ids.shape)):
            output = module(input_ids=ids, use_cache=True, logits_to_keep=1)
            tokens = [output.logits[:, -1:].argmax(-1)]
        if plan.new_tokens > 1:
            with phases("decode", tokens=plan.batch * (plan.new_tokens - 1)):
                for number in range(1, plan.new_tokens):
                    with phases.forward_pass(decode_mark(plan.batch, plan.prompt_tokens + number)):
                        output = module(
                            input_ids=tokens[-1],
                            past_key_values=output.past_key_values,
                            use_cache=True,
                            logits_to_keep=1,
                        )
                        tokens.append(output.logits[:, -1:].argmax(-1))
        return torch.cat(tokens, dim=1)


class StaticDecoder:
    """Generation in tensors that never move: cache, current token and its position are written in place."""

    def __init__(self, torch: Any, plan: WorkloadPlan, built: Built, ids: Any) -> None:
        self._torch, self._plan, self._ids, self._module = torch, plan, ids, built.module
        # Room for the steps that run before a capture, too.
        length = plan.prompt_tokens + max(plan.new_tokens, WARMUPS + 2)
        self._cache = transformers_class("StaticCache")(config=built.config, max_cache_len=length)
        self._token = torch.zeros((plan.batch, 1), dtype=torch.long, device=ids.device)
        self._position = torch.zeros((1, 1), dtype=torch.long, device=ids.device)
        self._slots = torch.arange(length, device=ids.device)
        self._step: Work = self.decode
        if plan.model.alibi:
            _fix_alibi(torch, plan, self._module, length, ids.device)

    def prepare(self) -> StaticDecoder:
        """The cache takes its memory at the first prefill, which must come before compiling and capturing."""
        with self._torch.no_grad():
            self.prefill()
            if self._plan.options.compile:
                self._module = self._torch.compile(self._module)
            if self._plan.options.cuda_graph:
                self._step = captured(self._torch, self.decode)
        return self

    def generate(self, phases: PhaseScopes) -> Any:
        torch, plan = self._torch, self._plan
        with torch.no_grad():
            with phases("prefill", tokens=self._ids.numel()), phases.forward_pass(prefill_mark(*self._ids.shape)):
                self.prefill()
                tokens = [self._token.clone()]
            if plan.new_tokens > 1:
                with phases("decode", tokens=plan.batch * (plan.new_tokens - 1)):
                    for number in range(1, plan.new_tokens):
                        with phases.forward_pass(decode_mark(plan.batch, plan.prompt_tokens + number)):
                            self._step()
                            tokens.append(self._token.clone())
            return torch.cat(tokens, dim=1)

    def prefill(self) -> None:
        self._cache.reset()
        length = self._ids.shape[1]
        # In an empty cache causality is all there is to mask, and the model's own way to do it is the fast one.
        mask = self._mask(self._slots[:length]) if self._plan.model.alibi else None
        output = self._module(
            input_ids=self._ids, attention_mask=mask, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        self._token.copy_(output.logits[:, -1:].argmax(-1))
        self._position.fill_(length)

    def decode(self) -> None:
        """One token; nothing here waits for the device, so that a graph can hold it."""
        positions = {} if self._plan.model.alibi else {"position_ids": self._position}
        output = self._module(
            input_ids=self._token,
            # Left to itself, a single query would look at the empty slots of the cache as well.
            attention_mask=self._mask(self._position[0]),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
            **positions,
        )
        self._token.copy_(output.logits[:, -1:].argmax(-1))
        self._position.add_(1)

    def _mask(self, queries: Any) -> Any:
        """Four-dimensional, so that the model takes it as it is: booleans, or what ALiBi's scores have added."""
        if not self._plan.model.alibi:
            return (self._slots <= queries[:, None])[None, None]
        dtype = getattr(self._torch, self._plan.dtype)
        return ((self._slots > queries[:, None]).to(dtype) * self._torch.finfo(dtype).min)[None, None]


def _fix_alibi(torch: Any, plan: WorkloadPlan, module: Any, length: int, device: Any) -> None:
    """BLOOM makes its bias from a two-dimensional mask at each call; without padding it is always this one."""
    ones = torch.ones((plan.batch, length), device=device)
    bias = module.transformer.build_alibi_tensor(ones, module.config.num_attention_heads, getattr(torch, plan.dtype))
    module.transformer.build_alibi_tensor = lambda *_, **__: bias
