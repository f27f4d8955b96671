"""Sequences of recorded calls as ops: each call on its own tensors, or results handed on, as it is or compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import getitem
from typing import Any, Final

import torch
import torch.fx

from warplens_run.formats.replay_plan import Argument, TensorView
from warplens_run.proof.sequence_calls import OpCall, from_text
from warplens_run.replay import bounds
from warplens_run.replay.calls import bind, resolve
from warplens_run.replay.faults import UnitRefused

COPY: Final = "aten::copy_"
CAST: Final = "aten::_to_copy"


@dataclass(frozen=True)
class GivenTensors:
    """The tensors that a unit is given, by their place in the list."""

    tensors: Sequence[Any]

    def tensor(self, view: TensorView) -> Any:
        return self.tensors[view.storage]


def sequence(tensors: list[Any], calls: str) -> None:
    for call in _kept(("calls", calls), lambda: from_text(calls).in_order()):
        bind(resolve(call.op, call.overload), call.arguments, GivenTensors(tensors), _device(tensors))()


def chain(tensors: list[Any], calls: str) -> list[Any]:
    return list(_chain_module(tensors, calls)(*tensors))


def compiled_chain(tensors: list[Any], calls: str) -> list[Any]:
    compiled = _kept(("compiled", calls), lambda: torch.compile(_chain_module(tensors, calls), dynamic=False))
    return list(compiled(*tensors))


_made: dict[tuple[str, str], Any] = {}


def _kept(key: tuple[str, str], make: Callable[[], Any]) -> Any:
    """What is made once in a process: reading, resolving and compiling are not part of a call."""
    if key not in _made:
        _made[key] = make()
    return _made[key]


def _device(tensors: Sequence[Any]) -> Any:
    on_gpu = (tensor.device for tensor in tensors if tensor.device.type == "cuda")
    return next(on_gpu, torch.device("cpu"))


def _chain_module(tensors: list[Any], calls: str) -> Any:
    return _kept(("chain", calls), lambda: ChainGraph(tensors).build(from_text(calls).in_order()))


@dataclass
class Value:
    """A tensor of the chain while its graph is made: the node that it is there, and one like it."""

    node: Any
    like: Any
    is_result: bool
    is_used: bool = False

    def fits(self, tensor: Any) -> bool:
        return bool(self.like.shape == tensor.shape and self.like.dtype == tensor.dtype)


@dataclass
class ChainGraph:
    """A graph of calls in which what one returns is what later ones read.

    A trace without an ExecutionTrace does not name tensors. What a call reads is taken to be the latest result of its
    shape and type that nothing has read yet; else an input of the chain of that shape and type; else one more input.
    """

    tensors: Sequence[Any]
    graph: Any = field(default_factory=torch.fx.Graph)
    values: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._inputs = [self.graph.placeholder(f"tensor{number}") for number in range(len(self.tensors))]

    def build(self, calls: Sequence[OpCall]) -> Any:
        for call in calls:
            self._add(call)
        results = [value for value in self.values if value.is_result]
        outputs = [value.node for value in results if not value.is_used] or [results[-1].node]
        self.graph.output(tuple(outputs))
        return torch.fx.GraphModule(torch.nn.Module(), self.graph)

    def _add(self, call: OpCall) -> None:
        op, arguments = _without_target(call)
        if bounds.is_strided(op):  # what it is given here has the shape of the recorded tensor, not its memory
            raise UnitRefused(f"{op.name()} is not replayed in a chain: its bounds are those of another storage")
        given = GivenNodes(self, _is_written(op))
        bound = bind(op, arguments, given, _device(self.tensors))
        node = self.graph.call_function(op, bound.args, bound.named)
        like = op(*given.alike(bound.args), **given.alike(bound.named))
        self._keep(node, like)

    def _keep(self, node: Any, like: Any) -> None:
        if isinstance(like, torch.Tensor):
            self.values.append(Value(node, like, is_result=True))
        elif isinstance(like, (tuple, list)):
            for number, part in enumerate(like):
                self._keep(self.graph.call_function(getitem, (node, number)), part)

    def read(self, tensor: Any, place: int) -> Value:
        results = (value for value in reversed(self.values) if value.is_result and not value.is_used)
        inputs = (value for value in self.values if not value.is_result)
        value = next((value for value in (*results, *inputs) if value.fits(tensor)), None)
        if value is None:
            value = self.own(tensor, place)
        value.is_used = True
        return value

    def own(self, tensor: Any, place: int) -> Value:
        value = Value(self._inputs[place], tensor, is_result=False)
        self.values.append(value)
        return value


@dataclass
class GivenNodes:
    """Stands for the tensors of one call: nodes of the graph, of each of which a tensor like it is known."""

    chain: ChainGraph
    is_written: bool
    like: dict[Any, Any] = field(default_factory=dict)

    def tensor(self, view: TensorView) -> Any:
        recorded = self.chain.tensors[view.storage]
        choose = self.chain.own if self.is_written else self.chain.read
        value = choose(recorded, view.storage)
        self.like[value.node] = value.like
        return value.node

    def alike(self, values: Any) -> Any:
        """The same arguments with tensors instead of nodes, as torch.fx maps them."""
        return torch.fx.node.map_arg(values, lambda node: self.like[node].clone())


def _is_written(op: Any) -> bool:
    """Whether it writes its result into a tensor that it is given for that alone."""
    return "out" in op._overloadname.split("_")


def _without_target(call: OpCall) -> tuple[Any, tuple[Argument, ...]]:
    """A copy between tensors of one shape is a cast, whose result is new."""
    views = [argument.tensor for argument in call.arguments[:2]]
    target, source = views if len(views) == 2 else (None, None)
    if call.op == COPY and target is not None and source is not None and target.shape == source.shape:
        return resolve(CAST, ""), (call.arguments[1], Argument("dtype", target.dtype))
    return resolve(call.op, call.overload), call.arguments


def definitions() -> Iterator[tuple[str, Callable[..., Any]]]:
    given = "Tensor[] tensors, str calls"
    yield f"sequence({given}) -> ()", sequence
    yield f"chain({given}) -> Tensor[]", chain
    yield f"compiled_chain({given}) -> Tensor[]", compiled_chain
