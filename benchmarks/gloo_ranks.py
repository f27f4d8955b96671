"""Traces of four ranks on the CPU, joined by gloo, one of which computes longer from some step on.

usage: gloo_ranks.py OUT [SLOW_RANK [SINCE_STEP]]

A small network whose gradients are reduced one by one, then the loss, which is gathered too. PyTorch for the CPU is
enough. The sample `samples/ranks/gloo4` is its rank 2 since step 4.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ProfilerActivity, profile, schedule

RANKS, STEPS = 4, 6
PRODUCTS = 24
"""More than the others, of the slow rank in a step."""


def run(rank: int, port: int, out: str, slow: int, since: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    data, more = torch.randn(256, 256), torch.randn(512, 512)

    def step(number: int) -> None:
        for _ in range(PRODUCTS if rank == slow and number >= since else 0):
            more @ more
        loss = net(data).square().mean()
        loss.backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        dist.all_gather([torch.empty_like(total) for _ in range(RANKS)], total)

    recording = profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=0, warmup=1, active=STEPS),
        on_trace_ready=lambda done: done.export_chrome_trace(f"{out}/gloo{RANKS}.rank{rank}.json.gz"),
    )
    step(-1)
    with recording:
        for number in range(STEPS + 1):
            step(number)
            recording.step()
    dist.destroy_process_group()


def main() -> None:
    out, slow, since = [*sys.argv[1:], *("2", "4")[len(sys.argv) - 2 :]][:3]
    Path(out).mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(run, (port, out, int(slow), int(since)), nprocs=RANKS)


if __name__ == "__main__":
    main()
