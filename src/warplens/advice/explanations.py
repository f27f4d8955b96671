"""What `warplens explain CODE` says: what the finding means, how its gain is estimated, when it is reported."""

from __future__ import annotations

from typing import Final

from warplens.advice.thresholds import THRESHOLDS

EXPLAIN: Final = {
    "WL101": (
        "The host cannot launch work as fast as the GPU does it. The gain is bounded by the gaps in which the host was "
        "still preparing the next launch or was inside the launch call. The evidence gives the rate of launches: a "
        "PyTorch op costs the host 5 to 20 µs, a kernel below that cannot keep the GPU busy. The ladder of fixes: CUDA "
        "graphs remove nearly all of it, torch.compile some of it, a larger batch makes each launch worth more. "
        "Reported when the GPU is idle for over {idle_percent:g} % of the time and these gaps are over "
        "{cause_percent:g} %."
    ),
    "WL102": (
        "Most GPU time comes from CUDA or HIP graph launches, inside which a trace records no ops. The kernels of a "
        "graph are categorised by name all the same: `launch_categories` says which kind dominates each graph. To see "
        "ops and lines, profile one step with graphs switched off. Kernels of JAX's command buffers whose ops the "
        ".xplane.pb names are not counted. There is nothing to win, so it is shown only with --min-gain 0, from "
        "{graph_percent:g} % of GPU time on."
    ),
    "WL103": (
        "Kernels that no rule knows take a noticeable share of GPU time, so category shares are incomplete. Add a rule "
        "for them with --rules my.toml. Reported above {other_percent:g} % of GPU time; it has no gain of its own."
    ),
    "WL104": (
        "Most GPU events are shorter than the threshold (10 µs unless set), about what a launch costs the host. Many "
        "short kernels leave the GPU waiting; fusing them (torch.compile) or replaying them as a graph removes the "
        "launches. The gain is bounded by the gaps in which the host was preparing a launch and those too short to "
        "list; WL101 is then not reported. Reported when over {short_share_percent:g} % of the events are short and "
        "that time is over {idle_percent:g} % of the total."
    ),
    "WL105": (
        "Communication runs while the GPU computes nothing. If computation hid all of it, the trace would be shorter "
        "by at most the exposed time; time spent waiting for a slower rank is in it too. Reported from "
        "{exposed_communication_percent:g} % of the total on."
    ),
    "WL106": (
        "Copies between host and GPU run while the GPU does nothing else. Pinned memory, non_blocking copies and a "
        "copy stream hide them. Reported from {exposed_memcpy_percent:g} % of the total on, unless WL302 is."
    ),
    "WL107": (
        "A few gaps of over 1 ms with the host in one place make up a large part of the idle time: a kernel or a "
        "graph being compiled, a plan being searched, a call that blocks. Reported from {stall_percent_of_idle:g} % of "
        "the idle time on, if the GPU is idle for over {idle_percent:g} %."
    ),
    "WL108": (
        "The GPU waits while the host allocates memory (cudaMalloc, cudaFree) or loads kernels and modules. Both "
        "belong into the warm-up; in a running program they mean that the caching allocator gives memory back and "
        "takes it again, or that new shapes load new kernels. The gain is bounded by those gaps. Reported "
        "from {cause_percent:g} % of the time on."
    ),
    "WL109": (
        "The GPU is idle although the next launch was queued in time (it waited for another stream or an event), or "
        "the trace does not say who launched it, or several GPUs work one after the other. The gain is bounded by "
        "those gaps. Reported from {idle_percent:g} % of the time on."
    ),
    "WL201": (
        "Matrix units load 16 bytes at a time, so every contiguous size of a product should be a multiple of 8 "
        "elements (bf16, fp16), 16 (fp8, int8) or 4 (TF32). Where one is not, libraries fall back to slow kernels. "
        "Padding it, say a vocabulary of 50257 to 50304, wastes a little arithmetic and wins much more. The estimate "
        "takes the padded product at {reachable_of_measured:g} of the measured ceiling ({reachable_of_datasheet:g} of "
        "a data sheet's). Reported for products and convolutions below {slow_matrix_percent:g} % of their limit with "
        "an odd contiguous size."
    ),
    "WL202": (
        "fp32 products run on the vector units unless TF32 is allowed, at a tenth of the matrix units' speed. TF32 "
        "keeps fp32's range and rounds the factors to 10 bits; for training and inference of neural networks that is "
        "nearly always enough, and bf16 is twice as fast again. The estimate takes TF32 at {reachable_of_measured:g} "
        "of the measured ceiling ({reachable_of_datasheet:g} of a data sheet's) and never below the time "
        "to move the bytes."
    ),
    "WL203": (
        "A kernel's name tells which architecture it was built for. One for an older GPU runs, but without the newer "
        "one's matrix instructions and copy engines. Reported for products, convolutions and attention below "
        "{slow_matrix_percent:g} % of their limit that WL201 and WL202 do not explain. The gain is bounded by the time "
        "above what is reachable."
    ),
    "WL204": (
        "Attention written as product, scaling, mask, softmax, product stores the score matrix and reads it several "
        "times; a fused kernel keeps it on the chip. Found from the sizes: batched products, a softmax and elementwise "
        "ops on the same number of scores. The estimate takes fused attention at {reachable_attention:g} of the "
        "matrix units' ceiling for the same FLOPs, or at the time to move what is no score, if that is longer."
    ),
    "WL205": (
        "Elementwise ops that follow each other on tensors of one size each write a result that the next one reads. "
        "Fused into one kernel, all but the last stay in registers. The table `chains` lists the sequences. The gain "
        "is bounded by the time those bytes take; results that the backward pass needs must still be written. Reported "
        "for chains of at least {chain_length:g} ops."
    ),
    "WL206": (
        "Tensors of the same size are converted from one type to another and elsewhere back again. Each cast reads and "
        "writes the whole tensor. The estimate is the time of those casts: some may be needed for accuracy, while the "
        "ops between them would move fewer bytes in the smaller type. Casts inside chains "
        "of other ops are WL205's."
    ),
    "WL207": (
        "Convolution kernels for matrix units want NHWC; with NCHW tensors the library transposes inputs and outputs "
        "around each one. channels_last stores the tensors that way once. The estimate is the time of the "
        "transposing kernels inside convolutions, and what batch norms win if they reach {reachable_norm:g} of the "
        "limit. Reported from {layout_percent:g} % of "
        "the time on."
    ),
    "WL208": (
        "The optimizer makes many launches: several per parameter (foreach=False), or several passes over all "
        "parameters. fused=True does it in one pass. The gain is bounded by the time from its first to its last "
        "kernel, less a third of its busy time. Reported from {optimizer_launches:g} launches per step on, unless a "
        "fused optimizer runs."
    ),
    "WL209": (
        "Blocks run in waves of as many as fit on the GPU at once. A grid a little over a whole number of waves leaves "
        "most multiprocessors idle during the last one. The table `launches` has waves and what limits them. The gain "
        "is bounded by the unused share of the time, if all blocks take equally long. Reported when over "
        "{tail_percent:g} % is unused, for kernels of at least {least_tail_us:g} µs."
    ),
    "WL210": (
        "A kernel with fewer blocks than the GPU has multiprocessors cannot fill it. The gain is bounded by the unused "
        "share. Reported when over {few_blocks_percent:g} % is unused, for kernels of at least {least_tail_us:g} µs; "
        "communication and copy kernels use few blocks on purpose and are left out."
    ),
    "WL211": (
        "Ops that are limited by memory but reach less than {slow_memory_percent:g} % of its bandwidth (half of that "
        "where the bytes are no exact count): usually strided or gathered access, a reduction along the wrong "
        "dimension, or a kernel not made for the shape. The gain is bounded by the time above the roofline. Ops of "
        "under {least_memory_us:g} µs at the limit are left out: they are limited by their start-up."
    ),
    "WL212": (
        "Activation checkpointing runs parts of the forward pass again during the backward pass. That buys memory with "
        "time: the gain is bounded by the recomputed work. Selective checkpointing keeps the expensive results."
    ),
    "WL213": (
        "Attention is given a mask as a tensor: the kernel reads it for every head or sample and computes all scores, "
        "also the masked ones. Where the mask is causal, is_causal=True lets it skip half of them and read nothing. "
        "The gain is bounded by half of the time of attention with a square mask tensor. Padding masks need the "
        "tensor; sequences of equal length, or packed ones, do not."
    ),
    "WL301": (
        "Calls that wait for the GPU (.item(), .cpu(), nonzero, boolean indexing, synchronize, blocking copies) let "
        "its queue run empty; afterwards it idles until the host has launched new work. The estimate is the gaps that "
        "such a call reaches into; that the launches after it start with an empty queue comes on top. The place is the "
        "line that called it. Reported from {cause_percent:g} % of the time on."
    ),
    "WL302": (
        "Copies between the GPU and pageable host memory go through a buffer of the driver's, at a fraction of the "
        "link's speed, and block the host. The estimate takes the same bytes at {reachable_of_measured:g} of the host "
        "link; copied ahead of time they would cost nothing."
    ),
    "WL303": (
        "The GPU is idle while the host waits for the next batch. The gain is bounded by those gaps. Reported from "
        "{cause_percent:g} % of the time on."
    ),
    "WL304": (
        "Between replays of a graph the GPU is idle: the host synchronises or works before it launches the next one. "
        "The gain is bounded by the gaps before graph launches. Reported from {cause_percent:g} % of the time on."
    ),
    "WL305": (
        "A step takes more than {straggler_ratio:g} × the usual (median) time. The gain is that excess, spread over "
        "all steps. Reported when at most a quarter of at least {straggler_steps:g} steps do. Gaps inside that step "
        "may be reported by their cause as well."
    ),
    "WL401": (
        "Small messages cost latency, not bandwidth. Many collectives below {small_message_kib:g} KiB spend their time "
        "on start-up. The gain is bounded by their exposed time. Reported from {small_messages_per_step:g} of them per "
        "step on."
    ),
    "WL901": (
        "The trace is damaged or cut, or launches are missing from its midst: sums, shares and steps miss something. "
        "`warplens show TRACE quality` has all notes. Reported for damage, and when over {unlinked_percent:g} % of GPU "
        "time has no recorded launch although work before it has. Work queued before the recording began is no fault."
    ),
}


def explain(code: str) -> str:
    return EXPLAIN[code].format(**THRESHOLDS)
