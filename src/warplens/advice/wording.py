"""What to do about each finding, in terms of the framework that launched the work.

A rule reports what is wrong; the remedy depends on the framework, and what to record better on the profiler. `WORDS`
has the advice of each finding by format, framework, or `ANY`; the most specific one is used: the profile's format,
else the framework that records such profiles, else what holds for any program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.advice.serving_words import SERVING_WORDS
from warplens.analyses.missing_data import TORCH
from warplens.analyses.time.gaps import CAUSES

ANY: Final = "any"
FRAMEWORKS: Final = {
    # format of a profile: the framework that records it
    TORCH: "torch",
    "xplane": "jax",
    "xla_json": "jax",
}
_FEWER: Final = "fewer, larger launches: "
_LAUNCHES: Final = {
    "torch": _FEWER + "replay the step as a CUDA graph (torch.compile mode='reduce-overhead'), else fuse with "
    "torch.compile, else give each launch more work (a larger batch)",
    "jax": _FEWER + "put the whole step under one jax.jit, run several steps in one call (jax.lax.scan), else give "
    "each launch more work (a larger batch)",
    ANY: _FEWER + "replay them as a CUDA or HIP graph, else fuse kernels, else give each launch more work",
}

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    **SERVING_WORDS,
    "WL101": _LAUNCHES,
    "WL104": _LAUNCHES,
    "WL102": {
        "torch": "record the capture of the graphs too and open the trace with it (warplens profile records it; else "
        "--graph-capture FILE): kernels then have ops, shapes, modules and lines",
        "xla_json": "open the run's .xplane.pb instead of its JSON: it names the HLO op of each kernel",
        ANY: "see launch_categories for each graph; profile once without graphs to see what launches each kernel",
    },
    "WL103": {ANY: "name their category in a rules file, and open the trace with these rules"},
    "WL105": {ANY: "overlap it with computation (bucket sizes, prefetching), shrink it, or balance the ranks"},
    "WL106": {
        "torch": "use pinned memory with non_blocking=True, prefetch on a copy stream, keep data on the GPU",
        "jax": "start the next batch's jax.device_put while this step runs, keep data on the GPU",
        ANY: "copy from pinned memory on a stream of its own, ahead of time; keep data on the GPU",
    },
    "WL107": {
        ANY: "look at what runs there: compilation or autotuning, data, a blocking call; warm up, or do it once"
    },
    "WL108": {
        "torch": "warm up before measuring; keep allocations in the caching allocator (expandable_segments:True, no "
        "empty_cache)",
        "jax": "warm up before measuring; let JAX keep its memory (XLA_PYTHON_CLIENT_PREALLOCATE), and shapes the "
        "same: a new one compiles again",
        ANY: "warm up before measuring; keep memory in a pool, load kernels once",
    },
    "WL109 dependency": {ANY: CAUSES["dependency"]},
    "WL109 unknown": {
        "torch": CAUSES["unknown"],
        "jax": "the next GPU event has no recorded launch: record with ProfileOptions.host_tracer_level of 1 or more",
        "proton": "Proton does not record when the host launches: PyTorch's or JAX's profiler, or Nsight Systems, "
        "shows what the host does meanwhile",
        "rocprofv3": "record the host's calls as well: rocprofv3 --hip-trace --marker-trace, or --sys-trace",
        "rocprof": "record the host's calls as well: rocprof --hip-trace --roctx-trace, or --sys-trace",
        "rocpd": "record the host's calls as well: rocprofv3 --hip-trace --marker-trace, or --sys-trace",
        "nsys": "record the host's calls as well: nsys profile --trace=cuda,nvtx,osrt",
        ANY: "the next GPU event has no recorded launch: record the host's calls as well",
    },
    "WL109 short gaps": {
        "torch": "fewer, larger kernels (fused ops, torch.compile): each start costs microseconds, inside graphs as "
        "well",
        ANY: "fewer, larger kernels: each start costs microseconds, inside graphs as well",
    },
    "WL109 turns": {ANY: "let the GPUs work at the same time"},
    "WL201": {ANY: "pad {paddings}: then {dtype} kernels can load 16 bytes at a time"},
    "WL202": {
        "torch": "torch.set_float32_matmul_precision('high') lets products run in TF32; bf16 autocast is twice as fast "
        "again",
        "jax": "jax.default_matmul_precision('tensorfloat32') lets products run in TF32; bf16 is twice as fast again",
        ANY: "let the products run in TF32; bf16 is twice as fast again",
    },
    "WL203": {
        "torch": "a newer cuBLAS, cuDNN or PyTorch may have kernels for this GPU; sizes that are multiples of 64 and "
        "bf16 or fp16 also reach them; for convolutions try torch.backends.cudnn.benchmark = True",
        ANY: "a newer cuBLAS or cuDNN may have kernels for this GPU; sizes that are multiples of 64 and bf16 or fp16 "
        "also reach them",
    },
    "WL204": {
        "torch": "call torch.nn.functional.scaled_dot_product_attention (attn_implementation='sdpa'): a fused kernel "
        "keeps the scores on the chip",
        "jax": "call jax.nn.dot_product_attention(implementation='cudnn'): a fused kernel keeps the scores on the chip",
        ANY: "use a fused attention kernel: it keeps the scores on the chip",
    },
    "WL205": {
        "torch": "fuse them: torch.compile the module, or use a fused op (F.gelu, F.silu, fused norms) in place of its "
        "formula",
        "jax": "fuse them: put them under one jax.jit",
        ANY: "fuse them into one kernel",
    },
    "WL206": {
        "torch": "keep one type through the block: drop .float() around ops that autocast handles, keep weights in "
        "bf16, or let torch.compile fuse the casts into their neighbours",
        ANY: "keep one type through the block, keep weights in bf16, or fuse the casts into their neighbours",
    },
    "WL207": {
        "torch": "use channels_last: model.to(memory_format=torch.channels_last) and the same for the input; then the "
        "kernels need no transposition, and batch norms run faster too",
        "jax": "give convolutions NHWC tensors (dimension_numbers=('NHWC', 'HWIO', 'NHWC')): then their kernels need "
        "no transposition",
        ANY: "keep tensors in NHWC (channels last): then the kernels need no transposition",
    },
    "WL208": {
        "torch": "pass fused=True to the optimizer: one pass over all parameters",
        ANY: "update all parameters in one fused kernel",
    },
    "WL208 loop": {
        "torch": "pass fused=True to the optimizer (or foreach=True): one pass over all parameters",
        ANY: "update all parameters in one fused kernel",
    },
    "WL209": {
        ANY: "change the tile or the split so that the blocks fill whole waves (other block sizes, split-K, a "
        "persistent or stream-K kernel), or the batch so that the grid does"
    },
    "WL210": {
        ANY: "more parallel work per launch: smaller tiles, a split along the reduction, a larger batch, or other work "
        "on a second stream beside it"
    },
    "WL211": {
        ANY: "make the innermost dimension contiguous (avoid transposed or strided inputs and gathers along it), "
        "gather and scatter longer rows, use larger or fused ops, or a kernel written for this shape"
    },
    "WL212": {
        ANY: "checkpoint less: only where memory needs it, or selectively (keep the outputs of products and attention, "
        "recompute the cheap ops)"
    },
    "WL213": {
        "torch": "if the mask is causal, pass is_causal=True and no mask: half of the scores, and the mask itself, are "
        "never touched",
        ANY: "if the mask is causal, say so with a flag and pass no mask: half of the scores, and the mask itself, are "
        "never touched",
    },
    "WL214": {
        "torch": "nn.Embedding(sparse=True) with SGD, Adagrad or SparseAdam: only the touched rows are written and "
        "updated. SparseAdam makes some twenty launches per table: not where the host is the limit",
        ANY: "compute gradients of the touched rows only, and update those",
    },
    "WL215": {
        "torch": "nn.LSTM, nn.GRU or nn.RNN over the whole sequence: one call of cuDNN (MIOpen) for all elements and "
        "layers, with the same weights",
        ANY: "one call of a library's recurrent layer over the whole sequence",
    },
    "WL216": {
        "torch": "run it once: model(torch.cat([first, second])).chunk(2), and the same for its other arguments",
        ANY: "run it once on both inputs as one batch",
    },
    "WL301": {
        "torch": "keep the value on the GPU: no .item(), .cpu(), synchronize(), nonzero, boolean indexing, print or "
        "Python `if` on a tensor in the step; read it once per many steps",
        "jax": "keep the value on the GPU: no float(), .item(), np.asarray(), block_until_ready(), print or Python "
        "`if` on an array in the step; read it once per many steps",
        ANY: "let the host run ahead of the GPU: no synchronising calls or blocking copies in the step",
    },
    "WL302": {
        "torch": "pin the host memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
        "non_blocking=True on a stream of its own, a step ahead",
        "jax": "start the next batch's jax.device_put a step ahead, or keep the data on the GPU",
        ANY: "pin the host memory and copy on a stream of its own, a step ahead",
    },
    "WL303": {
        "torch": "more workers, persistent_workers=True, a larger prefetch_factor, pin_memory=True; move decoding out "
        "of the loop",
        ANY: "more workers that load ahead of time; move decoding out of the loop",
    },
    "WL304": {
        "jax": "dispatch the next step before the last has ended: no block_until_ready() and little host work between "
        "them, or put that work under the same jax.jit",
        ANY: "launch the next replay before the last has ended: no synchronisation and little host work between them, "
        "or put that work into the graph"
    },
    "WL305": {
        ANY: "look at what only that step does: evaluation, checkpointing, logging, a new shape that recompiles, "
        "garbage collection, a slow batch"
    },
    "WL306": {
        "torch": "do it in a DataLoader's workers (num_workers) or on the GPU; once, not in each step, where it "
        "does not change; vectorise loops; log and save from another thread",
        ANY: "do it ahead of time in another process or on the GPU; once, not in each step, where it does not change; "
        "vectorise loops",
    },
    "WL401": {
        "torch": "send fewer, larger messages: larger DDP buckets (bucket_cap_mb), coalesced collectives, flat "
        "parameters",
        ANY: "send fewer, larger messages: combine collectives, or the tensors that they send",
    },
    "WL402": {
        ANY: "compare clocks, power and temperature of this GPU with another's (nvidia-smi -q -d "
        "CLOCK,POWER,TEMPERATURE,PERFORMANCE), end other processes on it, and exchange it if it stays slow; if only "
        "this rank runs that op, share it out"
    },
    "WL403": {
        ANY: "move what only this rank does out of the step (logging, checkpoints, evaluation); collect garbage on all "
        "ranks at once, every n steps (gc.disable(), gc.collect()); look for other processes on its cores, and bind it "
        "to cores near its GPU (numactl)"
    },
    "WL404": {
        "torch": "give its loader more time: num_workers, prefetch_factor, persistent_workers=True; compare its disk "
        "or mount and the size of its samples with those of other ranks",
        ANY: "load further ahead, with more workers; compare its disk or mount and the size of its samples with those "
        "of other ranks",
    },
    "WL405": {
        ANY: "measure this rank's links alone (nccl-tests: all_reduce_perf, sendrecv_perf), look at their error "
        "counters (nvidia-smi nvlink -e, ibdiagnet) and at the transport that NCCL_DEBUG=INFO names; exchange cable, "
        "port or machine"
    },
    "WL406": {
        ANY: "give all ranks equal work: batches by tokens, not by samples; bucket samples by length, pack short ones, "
        "or deal the long ones out in turns"
    },
    "WL407": {
        ANY: "move layers from this stage to the others, by measured time, not by number: embedding, output layer and "
        "loss count too; or use more, smaller stages per rank (interleaving)"
    },
    "WL408": {
        ANY: "balance tokens over experts: a balancing loss or bias in the router, a capacity limit, copies of hot "
        "experts, or hot and cold experts placed together"
    },
    "WL409": {
        "torch": "start them earlier and wait later: DDP's bucket_cap_mb, FSDP's prefetching "
        "(set_modules_to_forward_prefetch), async_op=True with wait() where the result is used; or send less (bf16 "
        "gradients, no_sync() while gradients accumulate)",
        ANY: "start them earlier and wait for them later, so that computation runs meanwhile; or send less",
    },
    "WL409 experts": {
        ANY: "compute something else meanwhile: a shared expert, or the other half of the batch (two microbatches in "
        "turns); send less: 8-bit activations, experts of one token on one machine"
    },
    "WL409 pipeline": {
        ANY: "post receives before the computation that they are needed after, and send on a stream of its own; more "
        "microbatches hide more of it"
    },
    "WL410": {
        "torch": "send fewer, larger messages: larger DDP buckets (bucket_cap_mb), coalesced collectives, flat "
        "parameters",
        ANY: "send fewer, larger messages: combine collectives, or the tensors that they send",
    },
    "WL411": {
        ANY: "record several steps, to see whether it is late in each; look at what it does before this one: data, a "
        "checkpoint, logging, a compilation"
    },
    "WL412": {
        "torch": "record this rank again with stacks and shapes (with_stack=True, record_shapes=True) and more steps; "
        "compare its trace with that of another rank (warplens diff)",
        ANY: "record this rank again in more detail and with more steps; compare its trace with that of another rank "
        "(warplens diff)",
    },
    "WL901": {
        "torch": "record again: let the GPU finish (torch.cuda.synchronize()) before the profiler starts and before it "
        "stops, and let it write the whole file",
        ANY: "record again: let the GPU finish before the profiler starts and before it stops, and let it write the "
        "whole file",
    },
}  # fmt: skip


def words(topic: str, format: str) -> str:
    """The advice on a finding, for a profile of this format.

    >>> words("WL205", "xplane"), words("WL205", "nsys")
    ('fuse them: put them under one jax.jit', 'fuse them into one kernel')
    """
    texts = WORDS[topic]
    return texts.get(format) or texts.get(FRAMEWORKS.get(format, ANY)) or texts[ANY]
