"""Training programs over several ranks, each small: what one step does, with a planted fault switched on or off.

A program is built once per job and then called as `step(faulty)`. Every step takes a batch from a data loader, trains
on it and ends by reading the loss on the host, as training loops that log it do: the ranks' hosts cannot run ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as PyTorch's own manual does
from torch.utils.data import DataLoader, IterableDataset

from rank_jobs import Fault, Sizes

VOCABULARY = 1024
HEAD_WIDTH = 64
PRODUCT_SIZES = {"full": 2048, "tiny": 64}


@dataclass(frozen=True)
class Place:
    """One rank of a job: where it runs and which fault is planted in the job."""

    rank: int
    world: int
    device: str
    tiny: bool
    fault: Fault

    def has(self, kind: str) -> bool:
        return self.fault.kind == kind and self.fault.rank == self.rank


class Switch:
    """Whether the step that is running has the fault: the data loader looks at it as well as the step."""

    def __init__(self) -> None:
        self.faulty = False


class Tokens(IterableDataset[Tensor]):
    """Random tokens; on the faulty rank they come late, or are longer sequences."""

    def __init__(self, place: Place, sizes: Sizes, switch: Switch) -> None:
        self._place, self._switch = place, switch
        random = torch.Generator().manual_seed(7 + place.rank)
        factor = int(place.fault.amount) if place.has("uneven_data") else 1
        shape = (sizes.batch * sizes.microbatches, sizes.length * factor)
        self._tokens = torch.randint(VOCABULARY, shape, generator=random)
        self._length = sizes.length

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            if self._switch.faulty and self._place.has("late_data"):
                self._read_slowly()
            is_long = self._switch.faulty and self._place.has("uneven_data")
            yield self._tokens if is_long else self._tokens[:, : self._length].contiguous()

    def _read_slowly(self) -> None:
        time.sleep(self._place.fault.amount / 1e3)


class Block(nn.Module):
    """A transformer's block without biases and without weights in its norms: every parameter is a matrix."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, hidden = sizes.width, sizes.width * sizes.expansion
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.has_attention = sizes.has_attention
        if sizes.has_attention:
            self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.has_attention:
            x = x + self.attend(self.norm(x))
        return x + self.down(F.gelu(self.up(self.norm(x))))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        # -1: a rank of a tensor-parallel block holds a part of the heads.
        query, key, value = (
            part(x).view(batch, length, -1, HEAD_WIDTH).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        attended: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        return attended


class Model(nn.Module):
    """Blocks between a fixed table of embeddings and the loss."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.register_buffer("table", 0.1 * torch.randn(VOCABULARY, sizes.width))
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.blocks))

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.embedding(tokens, self.table)
        for block in self.blocks:
            x = block(x)
        return loss_of(x, self.table, tokens)


def loss_of(x: Tensor, table: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy((x @ table.T).flatten(0, 1), tokens.flatten())


class Trainer:
    """What all programs share: the batches, the faults of host, GPU and data, and the end of a step."""

    def __init__(self, place: Place, sizes: Sizes) -> None:
        self.place, self.sizes, self.switch = place, sizes, Switch()
        self.batches = iter(DataLoader(Tokens(place, sizes, self.switch), batch_size=None))
        size = PRODUCT_SIZES["tiny" if place.tiny else "full"]
        self._factor = torch.randn(size, size, device=place.device) / size
        self.products = 0

    def train(self, tokens: Tensor) -> Tensor:
        raise NotImplementedError

    def step(self, faulty: bool) -> None:
        self.switch.faulty = faulty
        if faulty and self.place.has("host"):
            self.hold_host()
        tokens = next(self.batches).to(self.place.device)
        if faulty and self.place.has("gpu"):
            self.multiply_more(self.products)
        self.train(tokens).item()

    def hold_host(self) -> None:
        time.sleep(self.place.fault.amount / 1e3)

    def multiply_more(self, count: int) -> None:
        x = self._factor
        for _ in range(count):
            x = x @ self._factor

    def calibrate(self) -> None:
        """Find the number of products that take the planted time; the other ranks leave the GPU idle meanwhile."""
        for count in (5, 20):
            self._sync()
            started = time.perf_counter()
            self.multiply_more(count)
            self._sync()
        ms_each = (time.perf_counter() - started) * 1e3 / 20
        self.products = max(1, round(self.place.fault.amount / ms_each))

    def _sync(self) -> None:
        if self.place.device == "cuda":
            torch.cuda.synchronize()


class Whole(Trainer):
    """A model that PyTorch itself distributes: `wrap` makes it data, fully sharded or tensor parallel."""

    def __init__(self, place: Place, sizes: Sizes, wrap: Callable[[Place, nn.Module], nn.Module]) -> None:
        super().__init__(place, sizes)
        torch.manual_seed(1)
        self.model = wrap(place, Model(sizes).to(place.device))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)

    def train(self, tokens: Tensor) -> Tensor:
        loss: Tensor = self.model(tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def data_parallel(place: Place, model: nn.Module) -> nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, broadcast_buffers=False, bucket_cap_mb=4)


def fully_sharded(place: Place, model: nn.Module) -> nn.Module:
    return shard(model, mesh_of(place, (place.world,), ("dp",)))


def tensor_parallel(place: Place, model: nn.Module) -> nn.Module:
    return split(model, mesh_of(place, (place.world,), ("tp",)))


def sharded_and_split(place: Place, model: nn.Module) -> nn.Module:
    """A grid: tensor parallel within pairs of ranks, fully sharded between the pairs."""
    mesh = mesh_of(place, (place.world // 2, 2), ("dp", "tp"))
    return shard(split(model, mesh["tp"]), mesh["dp"])


def mesh_of(place: Place, shape: tuple[int, ...], names: tuple[str, ...]) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(place.device, shape, mesh_dim_names=names)


def shard(model: Any, mesh: Any) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def split(model: Any, mesh: Any) -> nn.Module:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for block in model.blocks:
        plan = {name: ColwiseParallel() for name in ("query", "key", "value", "up")}
        parallelize_module(block, mesh, {**plan, "out": RowwiseParallel(), "down": RowwiseParallel()})
    return model


class Pipeline(Trainer):
    """A stage per rank: all microbatches forward, then all backward, with a send and a recv for each."""

    def __init__(self, place: Place, sizes: Sizes) -> None:
        super().__init__(place, sizes)
        torch.manual_seed(1)
        more = int(place.fault.amount) if place.has("uneven_stage") else 1
        self.stage = nn.ModuleList(Block(sizes) for _ in range(sizes.blocks * more)).to(place.device)
        self.table = 0.1 * torch.randn(VOCABULARY, sizes.width, device=place.device)
        self.optimizer = torch.optim.SGD(self.stage.parameters(), lr=1e-3)
        self.is_first, self.is_last = place.rank == 0, place.rank == place.world - 1

    def train(self, tokens: Tensor) -> Tensor:
        ends = [self.forward(part) for part in tokens.chunk(self.sizes.microbatches)]
        losses = [self.backward(*pair) for pair in ends]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        loss = torch.stack(losses).mean()
        dist.all_reduce(loss)
        return loss

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        if self.is_first:
            start = F.embedding(tokens, self.table)
        else:
            start = torch.empty(*tokens.shape, self.sizes.width, device=self.place.device)
            dist.recv(start, self.place.rank - 1)
        start.requires_grad_()
        x = start
        for block in self.stage[: None if self.switch.faulty else self.sizes.blocks]:
            x = block(x)
        if self.is_last:
            return start, loss_of(x, self.table, tokens)
        dist.send(x.detach(), self.place.rank + 1)
        return start, x

    def backward(self, start: Tensor, end: Tensor) -> Tensor:
        if self.is_last:
            end.backward()
        else:
            gradient = torch.empty_like(end)
            dist.recv(gradient, self.place.rank + 1)
            end.backward(gradient)
        if not self.is_first and start.grad is not None:
            dist.send(start.grad, self.place.rank - 1)
        return end.detach() if self.is_last else torch.zeros((), device=self.place.device)


class Exchange(torch.autograd.Function):
    """all-to-all of rows, and its inverse for the gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, received: list[int], sent: list[int]) -> Tensor:
        ctx.received, ctx.sent = received, sent
        out = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), received, sent)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        out = gradients[0].new_empty(sum(ctx.sent), gradients[0].shape[1])
        dist.all_to_all_single(out, gradients[0].contiguous(), ctx.sent, ctx.received)
        return out, None, None


class Experts(Trainer):
    """An expert per rank: rows go to the experts and back; what is not an expert is data parallel."""

    def __init__(self, place: Place, sizes: Sizes) -> None:
        super().__init__(place, sizes)
        torch.manual_seed(1)
        width, hidden = sizes.width, sizes.width * sizes.expansion
        self.table = 0.1 * torch.randn(VOCABULARY, width, device=place.device)
        self.shared = nn.ModuleList(nn.Linear(width, width) for _ in range(sizes.blocks)).to(place.device)
        experts = [nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)) for _ in self.shared]
        self.experts = nn.ModuleList(experts).to(place.device)
        parameters = [*self.shared.parameters(), *self.experts.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=1e-3)
        self._random = torch.Generator().manual_seed(11 + place.rank)

    def train(self, tokens: Tensor) -> Tensor:
        x = F.embedding(tokens, self.table)
        for shared, expert in zip(self.shared, self.experts, strict=True):
            rows = shared(x).flatten(0, 1)
            x = x + self.through(expert, rows).view_as(x)
        loss = loss_of(x, self.table, tokens)
        loss.backward()
        self.average_shared()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def through(self, expert: nn.Module, rows: Tensor) -> Tensor:
        counts = torch.tensor(self.rows_per_expert(len(rows)), device=rows.device)
        incoming = torch.empty_like(counts)
        dist.all_to_all_single(incoming, counts)
        sent, received = counts.tolist(), incoming.tolist()
        answers = expert(Exchange.apply(rows, received, sent))
        returned: Tensor = Exchange.apply(answers, sent, received)
        return returned

    def rows_per_expert(self, rows: int) -> list[int]:
        """Nearly even shares, or most rows for the hot expert."""
        world, fault = self.place.world, self.place.fault
        weights = 1 + 0.2 * torch.rand(world, generator=self._random)
        if self.switch.faulty and fault.kind == "hot_expert":
            weights[fault.rank] *= fault.amount
        counts: list[int] = (weights / weights.sum() * rows).int().tolist()
        counts[-1] += rows - sum(counts)
        return counts

    def average_shared(self) -> None:
        gradients = [parameter.grad for parameter in self.shared.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        parts = flat.div_(self.place.world).split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


BUILDERS: dict[str, Callable[[Place, Sizes], Trainer]] = {
    "ddp": lambda place, sizes: Whole(place, sizes, data_parallel),
    "fsdp": lambda place, sizes: Whole(place, sizes, fully_sharded),
    "tp": lambda place, sizes: Whole(place, sizes, tensor_parallel),
    "grid": lambda place, sizes: Whole(place, sizes, sharded_and_split),
    "pp": Pipeline,
    "a2a": Experts,
}
