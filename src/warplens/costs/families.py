"""What each family of costs counts, in words."""

from __future__ import annotations

from typing import Final

FAMILIES: Final = {
    "gemm": "2·B·M·N·K, and M·N more where a bias or matrix is added; both factors, the bias and the result move",
    "grouped gemm": "2·M·N·K over all groups; every group's factor moves",
    "moe": "two products per token and expert it visits; the weights of the experts that can be visited move, packed "
    "as they are stored; routing and sorting move their tensors",
    "attention": "2·(D+Dv) per head and attended pair forward, twice that backward; a causal square counts half; "
    "q, k, v, output (and their gradients) move, the scores do not; with a paged cache the lengths of the requests "
    "come from the iteration's mark",
    "convolution": "2 per output position and weight; backward once each for the input's and the weight's gradient",
    "norm": "7 per element forward, 14 backward (RMS norms 4 and 9); input, weights, output and statistics move",
    "softmax": "5 per element forward, 4 backward; input and output move",
    "loss": "1 to 6 per element; of class scores only the target's element moves",
    "pointwise": "1 per element unless the op does more; operands at their stored size and the result move",
    "reduction": "1 per element read; the input and what is kept move",
    "sort": "no FLOPs; input, values and indices move",
    "indexing": "the indices, and the rows or elements they pick, read and written",
    "copy": "read once, written once",
    "cast": "read once in one type, written once in the other",
    "cat": "every element read and written",
    "fill": "written once",
    "optimizer": "passes over the lists of a foreach or fused op; long lists are sized by the launch grid",
    "rope": "3 per element of queries and keys, which are read and written",
    "quantize": "2 to 5 per element; input, output and scales move",
    "triton": "Inductor's kernels: the ops in the name count as they do alone; each recorded tensor moves once",
    "collective": "the message of one rank; see the table comm for bus bandwidths",
    "transfer": "bytes that a copy between host and GPU records; its limit is the host link",
}
