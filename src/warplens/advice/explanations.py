"""What `warplens explain CODE` prints: what the finding means, how its gain is estimated, when it is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.advice.serving_words import SERVING_EXPLANATIONS
from warplens.model.rule import Explanation

EXPLANATIONS: Final[Mapping[str, Explanation]] = {
    **SERVING_EXPLANATIONS,
    "WL101": Explanation(
        "The GPU waits for launches",
        "The host cannot launch work as fast as the GPU runs it. The gain is that of the step with all launches as one "
        "graph; where most of the idle time has other causes, that of the step without the host's time in the gaps in "
        "which it was still preparing the next launch or was inside the launch call. The evidence gives the recorded "
        "launch rate: a PyTorch op costs the host 5 to 20 µs, so kernels shorter than that cannot keep the GPU busy. "
        "Remedies, strongest first: CUDA graphs remove nearly all of the launch cost, torch.compile removes some, a "
        "larger batch gives each launch more work. The place names what makes most launches of the whole step: "
        "modules, else lines, else ops. Reported when the GPU is idle for over {idle_percent:g} % of the "
        "time and these gaps take over {cause_percent:g} %.",
    ),
    "WL102": Explanation(
        "Most GPU time is inside graph launches",
        "CUDA and HIP graph launches hide the ops inside them: a trace records only their kernels. These are still "
        "categorised by name, and `launch_categories` shows which category dominates each graph. The ops "
        "are on record while a graph is captured: a trace of the capture, given with --graph-capture or recorded by "
        "`warplens profile`, gives each kernel its op, shapes, module and line. Kernels "
        "of JAX command buffers whose ops are named in the .xplane.pb "
        "are not counted. It has no gain and is shown only with a minimum gain of 0, from "
        "{graph_percent:g} % of GPU time.",
    ),
    "WL103": Explanation(
        "Kernels of unknown category",
        "Kernels that match no category rule take a noticeable share of GPU time, so category shares are incomplete. "
        "Add rules for them in a rules file. Reported above {other_percent:g} % of GPU time; it has no gain of "
        "its own.",
    ),
    "WL104": Explanation(
        "The GPU waits for the launches of short kernels",
        "Most GPU events are shorter than the threshold (10 µs by default), which is about what a launch costs the "
        "host. Many short kernels leave the GPU waiting; fusing them (torch.compile) or replaying them as a graph "
        "removes the launches. Gain and place are those of WL101, which is then not reported; in a trace without a "
        "host side the gain is bounded by the gaps too short to list. "
        "Reported when over {short_share_percent:g} % of the events are short and the gaps before launches take over "
        "{idle_percent:g} % of the total.",
    ),
    "WL105": Explanation(
        "Exposed communication",
        "Communication runs while the GPU computes nothing. If computation hid all of it, the trace would be shorter "
        "by at most the exposed time, which includes the time spent waiting for a slower rank. Reported from "
        "{exposed_communication_percent:g} % of the total.",
    ),
    "WL106": Explanation(
        "Exposed copies",
        "Copies between host and GPU run while the GPU does nothing else. Pinned memory, non_blocking copies and a "
        "copy stream hide them. Reported from {exposed_memcpy_percent:g} % of the total, unless WL302 is reported.",
    ),
    "WL107": Explanation(
        "Long stalls in one place",
        "A few gaps of over 1 ms with the host in one place make up a large part of the idle time: compiling a kernel "
        "or a graph, searching for a plan, or a blocking call. Reported from {stall_percent_of_idle:g} % of the idle "
        "time, if the GPU is idle for over {idle_percent:g} % of the time.",
    ),
    "WL108": Explanation(
        "The GPU waits for memory allocation or kernel loading",
        "The GPU waits while the host allocates memory (cudaMalloc, cudaFree) or loads kernels and modules. Both "
        "belong in the warm-up; in a running program they mean that the caching allocator returns memory and allocates "
        "it again, or that new shapes load new kernels. The gain is bounded by those gaps. Reported from "
        "{cause_percent:g} % of the time.",
    ),
    "WL109": Explanation(
        "Idle time that the host does not explain",
        "The GPU is idle although the next launch was queued in time (it waited for another stream or an event), or "
        "the launch is not in the trace, or several GPUs work one after the other. The gain is bounded by those gaps "
        "as recorded. Reported from {idle_percent:g} % of the time.",
    ),
    "WL201": Explanation(
        "Matrix sizes that are not aligned",
        "Matrix kernels load 16 bytes at a time, so every contiguous size of a product should be a multiple of 8 "
        "elements (bf16, fp16), 16 (fp8, int8) or 4 (TF32). Where one is not, libraries fall back to slow kernels. "
        "Padding it, for example a vocabulary of 50257 to 50304, wastes little arithmetic and gains much more. The "
        "estimate assumes the padded product at {reachable_of_measured:g} of the measured ceiling "
        "({reachable_of_datasheet:g} of a data sheet's). Reported for products and convolutions below "
        "{slow_matrix_percent:g} % of their limit with an unaligned contiguous size.",
    ),
    "WL202": Explanation(
        "fp32 matrix products without TF32",
        "fp32 products run on the vector units unless TF32 is enabled, at a tenth of the matrix units' speed. TF32 "
        "keeps the range of fp32 and rounds the factors to 10 bits; for training and inference of neural networks that "
        "is nearly always enough, and bf16 is twice as fast again. The estimate assumes TF32 at "
        "{reachable_of_measured:g} of the measured ceiling ({reachable_of_datasheet:g} of a data sheet's), and never "
        "less than the time to move the bytes.",
    ),
    "WL203": Explanation(
        "Kernels built for an older architecture",
        "A kernel's name shows which architecture it was built for. A kernel for an older GPU runs, but without the "
        "matrix instructions and copy engines of the newer one. Reported for products, convolutions and attention "
        "below {slow_matrix_percent:g} % of their limit that WL201 and WL202 do not explain. The gain is bounded by "
        "the time above what is reachable.",
    ),
    "WL204": Explanation(
        "Attention that is not fused",
        "Attention written as product, scaling, mask, softmax and product stores the score matrix and reads it several "
        "times; a fused kernel keeps it on the chip. Detected by order and sizes on a stream, in one call of a module "
        "or function where those are recorded: a batched product writes as many elements as a softmax reads, and the "
        "next product reads as many again. `scores` and `scores_us` in the table `roofline` name those ops. The "
        "copies that only such a product needs (`q @ k.transpose(-1, -2)` of permuted tensors copies both inside "
        "`aten::matmul`) belong to it: a fused call takes any strides. The "
        "estimate assumes what back-ends of fused attention were measured to reach on the GPU for this type, width of "
        "a head and length (the table `ceilings`); where nobody measured it, {reachable_attention:g} of the matrix "
        "units' ceiling, and in fp32 {reachable_fp32_attention:g} of the vector units'; or the time to move everything "
        "except the scores, if that is longer. In fp32 only memory-efficient kernels run, which TF32 does not make "
        "faster: beside TF32 products (WL202) a fused call can lose, which the evidence then says. What makes a "
        "triangular mask for each call goes as well, with its launches.",
    ),
    "WL205": Explanation(
        "Elementwise ops that are not fused",
        "Consecutive elementwise ops on tensors of one size each write a result that the next one reads. Fused into "
        "one kernel, all results but the last stay in registers. The table `chains` lists the sequences. The gain is "
        "bounded by the time those bytes take; results that the backward pass needs must still be written. Reported "
        "for chains of at least {chain_length:g} ops.",
    ),
    "WL206": Explanation(
        "Casts back and forth between types",
        "Tensors of the same size are converted from one type to another and elsewhere back again. Each cast reads and "
        "writes the whole tensor. The estimate is the time of those casts, some of which may be needed for accuracy, "
        "and half of the time of elementwise ops of that size on their lines that run in fp32. Casts and ops inside "
        "chains belong to WL205.",
    ),
    "WL207": Explanation(
        "Layout conversions around convolutions",
        "Convolution kernels for matrix units require NHWC; with NCHW tensors the library transposes inputs and "
        "outputs around each convolution. channels_last stores the tensors that way once. The estimate is the time of "
        "the transposing kernels inside convolutions, plus what batch norms gain if they reach {reachable_norm:g} of "
        "their limit. Reported from {layout_percent:g} % of the time in which the GPU works. It is not reported where "
        "group norms take longer than batch norms, as they copy their input to NCHW, and not in fp32 without batch "
        "norms: there channels_last was measured to lose.",
    ),
    "WL208": Explanation(
        "An optimizer with many launches",
        "The optimizer makes many launches: several per parameter (foreach=False), or several passes over all "
        "parameters. fused=True needs one pass. The gain is bounded by the time from its first to its last kernel, "
        "minus a third of its busy time. Reported from {optimizer_launches:g} launches per step, unless a fused "
        "optimizer runs.",
    ),
    "WL209": Explanation(
        "Wave tails",
        "Blocks run in waves of as many as fit on the GPU at once. A grid slightly over a whole number of waves leaves "
        "most multiprocessors idle during the last one. The table `launches` has the waves and what limits them. The "
        "gain is bounded by the unused share of the time, if all blocks take equally long. Reported when over "
        "{tail_percent:g} % is unused, for kernels of at least {least_tail_us:g} µs.",
    ),
    "WL210": Explanation(
        "Too few blocks for the GPU",
        "A kernel with fewer blocks than the GPU has multiprocessors cannot fill it. The gain is bounded by the unused "
        "share of the time in which nothing else runs on that GPU (`alone_us` in the table `launches`): work of other "
        "streams can use the rest. Reported when over {few_blocks_percent:g} % is unused, for kernels of at least "
        "{least_tail_us:g} µs; communication and copy kernels use few blocks on purpose and are excluded.",
    ),
    "WL211": Explanation(
        "Memory-bound ops far below the bandwidth",
        "Ops that are limited by memory but reach less than {slow_memory_percent:g} % of its bandwidth (half of that "
        "where the byte count is approximate). Usual causes: strided or gathered access, a reduction along the wrong "
        "dimension, or a kernel not made for the shape. The gain is bounded by the time above the roofline. Ops that "
        "would win less than {slow_memory_gain_percent:g} % of a step are excluded, and those whose limit is below "
        "{least_memory_us:g} µs and that take less than {long_memory_us:g} µs: they are limited by their start-up.",
    ),
    "WL212": Explanation(
        "Recomputed activations",
        "Activation checkpointing runs parts of the forward pass again during the backward pass. That trades time for "
        "memory: the gain is bounded by the recomputed work. Selective checkpointing keeps the expensive results.",
    ),
    "WL213": Explanation(
        "Attention with a mask tensor",
        "Attention is given a mask as a tensor: the kernel reads it for every head or sample and computes all scores, "
        "including the masked ones. If the mask is causal, is_causal=True skips half of the scores and reads no mask. "
        "The gain is bounded by half of the time of attention with a square mask tensor. Padding masks need the "
        "tensor; sequences of equal length, or packed ones, do not.",
    ),
    "WL214": Explanation(
        "Dense gradients of embedding tables",
        "The gradient of an embedding is a tensor as large as the table, filled with zeros but for the rows that the "
        "batch looked up; the optimizer then reads and writes the whole table and its states. Sparse gradients touch "
        "those rows only. The gain is bounded by the share of fills and of the optimizer's passes that fall on rows "
        "that no index names. Reported where at most {touched_rows_percent:g} % of a table's rows are touched, and "
        "not for tables as large as the weight of a product, which may be the same tensor.",
    ),
    "WL215": Explanation(
        "Cells of a recurrent network in a Python loop",
        "nn.LSTMCell, nn.GRUCell or nn.RNNCell (or their ops) are called for each element of a sequence, with several "
        "launches each, forward and backward. A library's recurrent layer (nn.LSTM on cuDNN or MIOpen) computes all "
        "elements and layers in one call. The table `repeated_calls` has the calls. The estimate is the step without "
        "their launches and with 0.85 of their GPU time, as measured on an H200 (an LSTM's step from 39.1 to 7.5 ms, a "
        "GRU's from 32.3 to 5.4). Not reported for fewer than 8 calls a step, and where kernels between the calls "
        "choose or look up what the next one reads, as in a decoder that samples.",
    ),
    "WL216": Explanation(
        "Equal passes that could be one batch",
        "A model runs twice or more on inputs of equal shapes, one call right after the other, and the next op takes "
        "both results, as in classifier-free guidance or in a network with two equal towers. One pass over both inputs "
        "as a batch launches half as many kernels, which use the GPU better. Needs modules and shapes in the trace. "
        "The table `repeated_calls` has the passes. The gain is bounded by the later passes' launches and by what "
        "their kernels take above their roofline; it needs the memory of all passes at once.",
    ),
    "WL301": Explanation(
        "Synchronising calls",
        "Calls that wait for the GPU (.item(), .cpu(), nonzero, boolean indexing, synchronize, blocking copies) let "
        "its queue run empty; afterwards it idles until the host has launched new work. The estimate is the gaps that "
        "such a call overlaps; the launches after it start with an empty queue, which costs extra. The place is the "
        "line that made the call. Reported from {cause_percent:g} % of the time.",
    ),
    "WL302": Explanation(
        "Copies from or to pageable memory",
        "Copies between the GPU and pageable host memory go through a buffer of the driver, at a fraction of the "
        "link's speed, and block the host. The estimate assumes the same bytes at {reachable_of_measured:g} of the "
        "host link; prefetched copies would cost nothing.",
    ),
    "WL303": Explanation(
        "The GPU waits for data loading",
        "The GPU is idle while the host waits for the next batch. The gain is bounded by those gaps. Reported from "
        "{cause_percent:g} % of the time.",
    ),
    "WL304": Explanation(
        "Gaps between graph replays",
        "The GPU is idle between replays of a graph: the host synchronises or works before it launches the next one. "
        "The gain is bounded by the gaps before graph launches. Reported from {cause_percent:g} % of the time.",
    ),
    "WL305": Explanation(
        "A step that takes longer than the others",
        "A step takes more than {straggler_ratio:g} × the median time. The gain is the excess, averaged over all "
        "steps, without what recording its ops costs the host where the steps can be simulated. It is a bound: a GPU "
        "at its power limit runs faster after a pause, so that steps without one take longer. Reported when at most a "
        "quarter of at least {straggler_steps:g} steps are that slow. Gaps inside that step may also be reported by "
        "their cause.",
    ),
    "WL306": Explanation(
        "The GPU waits for host code",
        "Functions of the program or of a library run on the host for 0.1 ms or more at a time and launch nothing: "
        "image transforms, an environment in numpy, tokenising, logging, a loop in Python; ops on tensors in the "
        "host's memory count too. What ops and their launches take does not (WL101, WL104), nor a wait for the data "
        "loader (WL303). Where WL304 or WL601 is reported, this time belongs to the gaps between graphs or passes. "
        "The place is the function, outside of the framework, numpy and built-ins, that takes most of it. The gain "
        "is bounded by the step in which all of this code takes no time. Needs Python stacks in the trace, or ranges "
        "that the program names (record_function, NVTX), of which 1 ms or more at a time counts. Reported where that "
        "wins {host_code_percent:g} % of the step.",
    ),
    "WL401": Explanation(
        "Many small collectives",
        "Small messages are limited by latency, not bandwidth: collectives below {small_message_kib:g} KiB spend their "
        "time on start-up. The gain is bounded by their exposed time. Reported from {small_messages_per_step:g} of "
        "them per step.",
    ),
    "WL901": Explanation(
        "A damaged or incomplete trace",
        "The trace is damaged or truncated, or launches are missing in its middle, so sums, shares and steps are "
        "incomplete. `warplens show TRACE quality` lists all notes. Reported for damage, and when over "
        "{unlinked_percent:g} % of GPU time has no recorded launch although earlier work has. Work queued before the "
        "recording began is not a fault.",
    ),
}
