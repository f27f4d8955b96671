"""Every number that decides whether a rule fires, in one place; `warplens explain CODE` fills them in."""

from __future__ import annotations

from typing import Final

from warplens.analyses.workspace import Options
from warplens.model.rule import Thresholds, threshold


class TraceThresholds(Thresholds):
    min_gain_percent = threshold(Options.min_gain_percent, "smaller gains are within the spread of runs")
    # idle time
    idle_percent = threshold(10.0, "less idle time is common even in well-tuned training")
    short_share_percent = threshold(50.0, "short kernels are the usual case, not the exception")
    stall_percent_of_idle = threshold(10.0, "one place with a tenth of the idle time deserves its own finding")
    cause_percent = threshold(1.0, "the least gain that is reported by default")
    host_code_percent = threshold(5.0, "a few percent of logging and bookkeeping are in every program")
    # kernels in graphs or of unknown category
    graph_percent = threshold(50.0, "most of the time cannot be attributed to ops")
    other_percent = threshold(1.0, "category shares are then off by more than they are rounded")
    unlinked_percent = threshold(5.0, "sums by op, line and step then miss a noticeable part")
    # communication and copies
    exposed_communication_percent = threshold(10.0, "some exposed communication remains with good overlap")
    exposed_memcpy_percent = threshold(5.0, "copies of a batch are short when they are prefetched")
    small_message_kib = threshold(1024.0, "below about 1 MiB a collective takes its latency, not its bandwidth")
    small_messages_per_step = threshold(8.0, "a few small messages, such as a loss, are in every program")
    # how close to a measured ceiling a well-written kernel comes, and to a data sheet's
    reachable_of_measured = threshold(0.85, "large library products reach this share of a measured ceiling")
    reachable_of_datasheet = threshold(0.7, "data sheets give a clock that sustained work does not keep")
    reachable_bandwidth = threshold(0.8, "large copies reach this share of a data sheet's bandwidth")
    reachable_norm = threshold(0.5, "channels-last batch norms reach half of their limit")
    reachable_attention = threshold(0.5, "fused attention kernels reach half of the matrix units' rate")
    reachable_fp32_attention = threshold(0.4, "in fp32 they run on the vector units, at 0.25 to 0.7 of their rate")
    # matrix work
    slow_matrix_percent = threshold(50.0, "library kernels for aligned sizes reach more")
    least_matrix_us = threshold(5.0, "shorter products are limited by their start-up")
    # memory-bound work
    slow_memory_percent = threshold(40.0, "a plain elementwise kernel reaches twice this")
    least_memory_us = threshold(10.0, "shorter kernels are limited by their start-up")
    long_memory_us = threshold(100.0, "a call that takes this long is not in its start-up, however little it moves")
    slow_memory_gain_percent = threshold(3.0, "library kernels for strided data reach a quarter of the bandwidth")
    touched_rows_percent = threshold(25.0, "of more, sorting and adding up single rows costs as much as it saves")
    layout_percent = threshold(2.0, "a few transpositions at the edges of a model are normal")
    chain_length = threshold(3.0, "two ops in a row save too few bytes to matter")
    # launches
    tail_percent = threshold(25.0, "a smaller unused share is common for grids of a few waves")
    few_blocks_percent = threshold(50.0, "half of the multiprocessors have no work")
    least_tail_us = threshold(20.0, "shorter kernels do not fill the GPU for other reasons")
    optimizer_launches = threshold(50.0, "a fused optimizer needs a handful of launches")
    # served models
    least_passes = threshold(3.0, "of two passes only one gap is recorded")
    pass_gap_percent = threshold(5.0, "engines that prepare the next pass ahead leave less")
    pause_passes = threshold(10.0, "no scheduler takes so long: there was no request")
    padding_percent = threshold(10.0, "sizes of graphs are a few requests apart")
    blocking_percent = threshold(10.0, "chunks of prompts that fit beside decode cost less")
    slow_token_ratio = threshold(1.5, "below, no request notices")
    attention_percent = threshold(10.0, "less attention limits no pass")
    slow_cache_percent = threshold(40.0, "decode kernels of long sequences reach twice this")
    sampling_percent = threshold(10.0, "greedy sampling of a large model takes a few percent")
    decode_communication_percent = threshold(10.0, "custom all-reduces of small messages take less")
    quantization_percent = threshold(5.0, "fused with their neighbours these kernels are gone")
    # steps
    straggler_ratio = threshold(1.3, "steps of one program differ by less")
    straggler_steps = threshold(4.0, "with fewer steps the median does not show what is usual")


class JobThresholds(Thresholds):
    """Of the rules on many ranks."""

    min_gain_percent = threshold(Options.min_gain_percent, "smaller gains are within the spread of runs")
    uneven_receive = threshold(1.2, "routers of experts that are trained well stay below")
    exposed_transfer_percent = threshold(10.0, "some exposed communication remains with good overlap")
    small_kib = threshold(1024.0, "below about 1 MiB a collective takes its latency, not its bandwidth")
    small_per_step = threshold(8.0, "a few small messages, such as a loss, are in every program")


THRESHOLDS: Final = TraceThresholds()
JOB_THRESHOLDS: Final = JobThresholds()
LONG_GAP_US: Final = 1000.0
"""A gap no launch explains."""
LIMIT_PERCENT: Final = 10.0
"""What saves this share of the step if it takes no time limits the step: less is within what well-tuned steps have."""
LIMIT_SHARE: Final = 0.25
"""A second limit is named where it saves at least this share of what the first does."""
IDLE_BOUND_PERCENT: Final = 40.0
"""From this share of idle time on a run is called host-bound where its step cannot be simulated."""
COMMUNICATION_BOUND_PERCENT: Final = 30.0
"""From this share of exposed communication on it is called communication-bound then."""
ALIGNMENT: Final = {"bf16": 8, "fp16": 8, "fp8": 16, "int8": 16, "fp32": 4}
"""Elements in 16 bytes: what fast matrix kernels load at once; every contiguous size should be a multiple of it."""
GOOD_MULTIPLE: Final = 64
"""Tiles divide a multiple of this size without a remainder."""
