"""Memory snapshots in PyTorch's format, made by a simulated caching allocator whose sums are known at every event.

`Allocator` follows the rules of PyTorch's CUDA allocator: sizes are rounded to 512 bytes, small and large blocks have
pools of their own, the best fit is split where enough remains, and free neighbours merge.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

KB, MB = 1 << 10, 1 << 20
START_US = 1_700_000_000_000_000
MODEL, TRAIN, TORCH = "/home/me/model.py", "/home/me/train.py", "/usr/lib/python3/site-packages/torch"
Frame = dict[str, Any]


def frame(file: str, line: int, name: str) -> Frame:
    return FRAMES.setdefault((file, line, name), {"name": name, "filename": file, "line": line})


FRAMES: dict[tuple[str, int, str], Frame] = {}
"""As PyTorch does, equal frames are one dict, and equal stacks one list."""
MAIN = frame(TRAIN, 40, "main")
CALL = frame(f"{TORCH}/nn/modules/module.py", 1762, "_call_impl")
FORWARD = [frame(f"{TORCH}/nn/modules/linear.py", 125, "forward"), CALL, frame(MODEL, 12, "forward"), CALL, MAIN]
LOSS = [frame(f"{TORCH}/nn/functional.py", 3494, "cross_entropy"), frame(TRAIN, 33, "loss"), MAIN]
BACKWARD = [frame("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)")]
BUILD = [frame(f"{TORCH}/nn/modules/module.py", 1300, "_apply"), frame(TRAIN, 8, "build")]
OPTIMIZER = [
    frame(f"{TORCH}/optim/adamw.py", 170, "_init_group"),
    frame(f"{TORCH}/optim/optimizer.py", 493, "wrapper"),
    MAIN,
]
ZERO_GRAD = [frame(f"{TORCH}/optim/optimizer.py", 1000, "zero_grad"), MAIN]


class Allocator:
    """One GPU. `allocated`, `reserved` and `times` have a value for every event of `trace`."""

    is_expandable = False

    def __init__(self, device: int = 0) -> None:
        self.device = device
        self.segments: dict[int, int] = {}
        self.blocks: dict[int, dict[str, Any]] = {}
        self.trace: list[dict[str, Any]] = []
        self.allocated: list[int] = []
        self.reserved: list[int] = []
        self.used: list[dict[int, int]] = []
        """Sizes of the blocks in use by address, after every event."""
        self.is_recording = True
        self._next, self._now, self.peak = 0x7F0000000000, START_US, 0
        self.in_use = 0

    def alloc(self, size: int, frames: list[Frame], stream: int = 0) -> int:
        """The address of a new block."""
        rounded = max(512, -(-size // 512) * 512)
        is_small = rounded <= MB
        fits = [
            (block["size"], address)
            for address, block in self.blocks.items()
            if block["state"] == "inactive" and block["small"] == is_small and block["stream"] == stream
            and block["size"] >= rounded
        ]  # fmt: skip
        address = min(fits)[1] if fits else self._malloc(rounded, is_small, stream, frames)
        block = self.blocks[address]
        remaining = block["size"] - rounded
        if self._splits(remaining, is_small):
            self.blocks[address + rounded] = {**block, "size": remaining, "frames": [], "requested_size": 0}
            block["size"] = rounded
        block |= {"state": "active_allocated", "requested_size": size, "frames": frames}
        self.in_use += block["size"]
        self.peak = max(self.peak, self.in_use)
        self._record("alloc", address, size, frames, stream)
        return address

    def _splits(self, remaining: int, is_small: bool) -> bool:
        return remaining >= 512 if is_small else remaining > MB

    def free(self, address: int, frames: list[Frame] | None = None, *, completes: bool = True) -> None:
        block = self.blocks[address]
        block["state"] = "active_awaiting_free"
        self.in_use -= block["size"]
        self._record("free_requested", address, block["requested_size"], frames or [], block["stream"])
        if completes:
            self.complete(address)

    def complete(self, address: int) -> None:
        """The other stream has done with a block that was freed."""
        block = self.blocks[address]
        self._record("free_completed", address, block["requested_size"], [], block["stream"])
        block |= {"state": "inactive", "frames": [], "requested_size": 0}
        for first in sorted(self.blocks):  # merge neighbours of one segment
            while (after := first + self.blocks.get(first, {"size": 0})["size"]) in self.blocks and after != first:
                pair = self.blocks[first], self.blocks[after]
                if after in self.segments or any(each["state"] != "inactive" for each in pair):
                    break
                pair[0]["size"] += self.blocks.pop(after)["size"]

    def empty_cache(self) -> None:
        for address, size in list(self.segments.items()):
            block = self.blocks[address]
            if block["state"] == "inactive" and block["size"] == size:
                del self.segments[address], self.blocks[address]
                self._record("segment_free", address, size, [], block["stream"])

    def _malloc(self, rounded: int, is_small: bool, stream: int, frames: list[Frame]) -> int:
        large = 20 * MB if rounded < 10 * MB else -(-rounded // (2 * MB)) * 2 * MB
        size = 2 * MB if is_small else large
        address, self._next = self._next, self._next + size  # segments that touch must not merge
        self.segments[address] = size
        self.blocks[address] = {"size": size, "state": "inactive", "small": is_small, "stream": stream,
                                "requested_size": 0, "frames": []}  # fmt: skip
        self._record("segment_alloc", address, size, frames, stream)
        return address

    def _record(self, action: str, address: int, size: int, frames: list[Frame], stream: int) -> None:
        self._now += 10
        if not self.is_recording:
            return
        self.trace.append({"action": action, "addr": address, "size": size, "stream": stream, "time_us": self._now,
                           "compile_context": "N/A", "user_metadata": "", "frames": frames})  # fmt: skip
        self.allocated.append(self.in_use)
        self.reserved.append(sum(self.segments.values()))
        in_use = {at: block["size"] for at, block in self.blocks.items() if block["state"] != "inactive"}
        self.used.append({at: size for at, size in in_use.items() if (action, at) != ("free_completed", address)})

    def segment_dicts(self) -> list[dict[str, Any]]:
        return [self._segment(address, size) for address, size in sorted(self.segments.items())]

    def _segment(self, start: int, size: int) -> dict[str, Any]:
        inside = {address: block for address, block in sorted(self.blocks.items()) if start <= address < start + size}
        used = sum(block["size"] for block in inside.values() if block["state"] == "active_allocated")
        active = sum(block["size"] for block in inside.values() if block["state"] != "inactive")
        first = next(iter(inside.values()))
        return {
            "device": self.device, "address": start, "total_size": size, "allocated_size": used, "active_size": active,
            "requested_size": 0, "stream": first["stream"], "segment_type": "small" if first["small"] else "large",
            "segment_pool_id": (0, 0), "is_expandable": self.is_expandable, "frames": [],
            "blocks": [{"address": address, "size": block["size"], "requested_size": block["requested_size"],
                        "state": block["state"], "frames": block["frames"]} for address, block in inside.items()],
        }  # fmt: skip


class ExpandableAllocator(Allocator):
    """With expandable segments: one range of addresses per pool, of which pages are mapped and unmapped.

    `segments` are the ranges that are mapped without a gap, as a snapshot has them.
    """

    is_expandable = True

    def _splits(self, remaining: int, is_small: bool) -> bool:
        return remaining >= 512

    def _malloc(self, rounded: int, is_small: bool, stream: int, frames: list[Frame]) -> int:
        """Map pages behind the first range with enough room, from its free end on."""
        page, base = self._page(is_small), self._next + (0 if is_small else 1 << 40)
        ranges = sorted((at, size) for at, size in self.segments.items() if (at >= self._next + (1 << 40)) != is_small)
        ends = [at + size for at, size in ranges] or [base]
        starts = [at for at, _ in ranges[1:]] + [1 << 60]
        for end, following in zip(ends, starts, strict=True):
            last = max((at for at in self.blocks if at < end and at + self.blocks[at]["size"] == end), default=None)
            tail = 0 if last is None or self.blocks[last]["state"] != "inactive" else self.blocks[last]["size"]
            mapped = -(-(rounded - tail) // page) * page
            if end + mapped <= following:
                break
        self._map(end, mapped)
        self.blocks[end] = {"size": mapped, "state": "inactive", "small": is_small, "stream": stream,
                            "requested_size": 0, "frames": []}  # fmt: skip
        self._record("segment_map", end, mapped, frames, stream)
        self._merge()
        return end - tail

    def _page(self, is_small: bool) -> int:
        return 2 * MB if is_small else 20 * MB

    def _map(self, address: int, size: int) -> None:
        self.segments[address] = size
        for start in sorted(self.segments):
            while (after := start + self.segments.get(start, 0)) in self.segments and after != start:
                self.segments[start] += self.segments.pop(after)

    def _merge(self) -> None:
        for first in sorted(self.blocks):
            while (after := first + self.blocks.get(first, {"size": 0})["size"]) in self.blocks and after != first:
                if any(self.blocks[each]["state"] != "inactive" for each in (first, after)):
                    break
                self.blocks[first]["size"] += self.blocks.pop(after)["size"]

    def empty_cache(self) -> None:
        """Unmap the whole pages of free blocks."""
        for address, block in sorted(self.blocks.items()):
            page = self._page(block["small"])
            first = self._aligned(address, page, up=True)
            last = self._aligned(address + block["size"], page, up=False)
            if block["state"] == "inactive" and last > first:
                self._unmap(address, first, last)

    def _aligned(self, address: int, page: int, *, up: bool) -> int:
        base = self._next + (1 << 40 if page > 2 * MB else 0)
        return base + (-(-(address - base) // page) if up else (address - base) // page) * page

    def _unmap(self, address: int, first: int, last: int) -> None:
        block = self.blocks.pop(address)
        for start, end in ((address, first), (last, address + block["size"])):
            if end > start:
                self.blocks[start] = {**block, "size": end - start}
        whole = next(at for at, size in self.segments.items() if at <= first < at + size)
        end_of_whole = whole + self.segments.pop(whole)
        for start, end in ((whole, first), (last, end_of_whole)):
            if end > start:
                self.segments[start] = end - start
        self._record("segment_unmap", first, last - first, [], block["stream"])

    def unused_pages(self) -> int:
        """Bytes of mapped pages that no block in use touches."""
        used = [(at, at + block["size"]) for at, block in self.blocks.items() if block["state"] != "inactive"]
        total = 0
        for start, size in self.segments.items():
            page = self._page(start < self._next + (1 << 40))
            total += sum(
                page
                for at in range(start, start + size, page)
                if all(end <= at or begin >= at + page for begin, end in used)
            )
        return total


def failed(gpu: Allocator, requested: int, free: int | None) -> Allocator:
    """As PyTorch records it: with the device's free memory in the place of an address."""
    gpu._record("oom", 0, requested, FORWARD, 0)
    entry = gpu.trace[-1]
    del entry["addr"]
    entry |= {} if free is None else {"device_free": free}
    return gpu


def snapshot(*allocators: Allocator, most_events: int = 0) -> dict[str, Any]:
    """As `torch.cuda.memory._snapshot()` has it; `most_events`: only the last ones, as a ring buffer keeps them."""
    traces = [allocator.trace[-most_events:] if most_events else allocator.trace for allocator in allocators]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False,
                "garbage_collection_threshold": 0.0, "roundup_power2_divisions": {"1": 0, "2": 0}}  # fmt: skip
    return {
        "segments": [segment for allocator in allocators for segment in allocator.segment_dicts()],
        "device_traces": traces,
        "allocator_settings": settings,
        "external_annotations": [],
    }


def written(path: Path, document: dict[str, Any], protocol: int = 4) -> Path:
    if path.suffix == ".json":
        path.write_text(json.dumps(document))
    else:
        path.write_bytes(pickle.dumps(document, protocol))
    return path


def train(steps: int = 3, layers: int = 4, *, keep_gradients: bool = False, logits_bytes: int = 0) -> Allocator:
    """A training program: parameters, and in each step activations, gradients, and an optimizer with two states."""
    gpu = Allocator()
    weights = [gpu.alloc(4 * MB + 512 * index, BUILD) for index in range(layers)]
    states: list[int] = []
    gradients: list[int] = []
    for _ in range(steps):
        activations = [gpu.alloc(6 * MB + 100 * KB * index, FORWARD) for index in range(layers)]
        for _ in range(layers):
            gpu.free(gpu.alloc(700 * KB, FORWARD))
        loss = gpu.alloc(logits_bytes, LOSS) if logits_bytes else None
        if not keep_gradients or not gradients:
            gradients = []
        made = []
        for activation in reversed(activations):
            workspace = gpu.alloc(3 * MB, BACKWARD)
            if len(gradients) < layers:
                made.append(gpu.alloc(4 * MB, BACKWARD))
                gradients.append(made[-1])
            gpu.free(activation, BACKWARD)
            gpu.free(workspace, BACKWARD)
        if loss is not None:
            gpu.free(loss, BACKWARD)
        states = states or [gpu.alloc(4 * MB + 512 * (index // 2), OPTIMIZER) for index in range(2 * layers)]
        if not keep_gradients:
            for gradient in gradients:
                gpu.free(gradient, ZERO_GRAD)
    assert weights and states
    return gpu
