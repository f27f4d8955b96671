"""Captures of GPU graphs and their replays as PyTorch's profiler writes them, for CUDA and for HIP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from support import annotation, frame, kernel, memset, op

Events = list[dict[str, Any]]
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
GEMM_2 = "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_TNN"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)"
TRITON = "triton_poi_fused_add_relu_0"


class Node(NamedTuple):
    """A launch of a model: the op around it, inside which module, and the kernel that it runs ("" for a memset)."""

    op: str
    kernel: str
    module: str = "Linear_0"
    dims: Sequence[Sequence[int]] = ((32, 64), (64, 16))


LAYER = (
    Node("aten::addmm", GEMM, dims=((16,), (32, 64), (64, 16))),
    Node("aten::add", ADD, "Block_0"),
    Node("aten::native_layer_norm", NORM, "LayerNorm_0"),
    Node("aten::mm", GEMM_2, "Linear_1", ((32, 16), (16, 8))),
    Node("aten::zero_", "", "Block_0"),
)


def _inputs(node: Node) -> dict[str, Any]:
    return {"Input Dims": [list(size) for size in node.dims], "Input type": ["float"] * len(node.dims)}


def call(name: str, ts: float, dur: float, correlation: int, *, tid: int = 1, **args: Any) -> dict[str, Any]:
    """A call of the GPU's runtime."""
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
            "args": {"correlation": correlation, **args}}  # fmt: skip


def capture(
    nodes: Sequence[Node] = LAYER, *, ts: float = 0.0, first: int = 1, api: str = "cuda", tid: int = 1, label: str = ""
) -> Events:
    """The capture of a graph: 10 µs for each node, and no kernels. HIP's calls name the kernels that they launch."""
    end = ts + 10 * len(nodes) + 4
    events = [
        call(f"{api}StreamBeginCapture", ts + 1, 1, first, tid=tid),
        call(f"{api}StreamEndCapture", end - 2, 1, first + len(nodes) + 1, tid=tid),
        frame("serve.py(9): forward", ts + 2.5, 10 * len(nodes) - 1, tid=tid),
    ]
    if label:
        events.append(annotation(label, ts, end - ts, tid=tid))
    for number, node in enumerate(nodes):
        at = ts + 3 + 10 * number
        events += [
            frame(f"nn.Module: {node.module}", at, 8, tid=tid),
            op(node.op, at + 1, 6, tid=tid, **_inputs(node)),
        ]
        named = {"kernel": node.kernel, "grid": [number + 1, 1, 1], "block": [64, 1, 1]} if api == "hip" else {}
        name = f"{api}LaunchKernel" if node.kernel else f"{api}MemsetAsync"
        events.append(call(name, at + 2, 1, first + 1 + number, tid=tid, **(named if node.kernel else {})))
    return events


def replay(
    nodes: Sequence[Node] = LAYER, *, ts: float = 1000.0, correlation: int = 500, api: str = "cuda", tid: int = 1,
    mark: str = "", streams: Sequence[int] = (), node_ids: Sequence[int] = (), graph_id: int = 0,
) -> Events:  # fmt: skip
    """A launch of the graph and its kernels, 5 µs each and one after the other."""
    events = [call(f"{api}GraphLaunch", ts + 1, 4, correlation, tid=tid)]
    if mark:
        events.append(annotation(mark, ts, 6, tid=tid))
    for number, node in enumerate(nodes):
        at = ts + 10 + 5 * number
        stream = streams[number] if streams else 7
        args = {"graph id": graph_id, "graph node id": node_ids[number]} if node_ids else {}
        if node.kernel:
            events.append(kernel(node.kernel, at, 4, correlation, stream=stream, **args))
        else:
            events.append(memset(at, 4, correlation, stream=stream))
    return events


def eager(nodes: Sequence[Node] = LAYER, *, ts: float = 0.0, first: int = 1) -> Events:
    """The same work launched one by one."""
    events: Events = []
    for number, node in enumerate(nodes):
        at, correlation = ts + 10 * number, first + number
        events += [
            frame(f"nn.Module: {node.module}", at, 8),
            op(node.op, at + 1, 6, **_inputs(node)),
            call("cudaLaunchKernel" if node.kernel else "cudaMemsetAsync", at + 2, 1, correlation),
            kernel(node.kernel, at + 20, 4, correlation) if node.kernel else memset(at + 20, 4, correlation),
        ]
    return events
