"""Fixes that are switched on and off while a program runs: each changes what it should, and leaves nothing behind."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch

from warplens_run.base.errors import WarplensError
from warplens_run.trying.fixes.attention import ModelAttention
from warplens_run.trying.fixes.autocast import Bf16Autocast, WeightsCastOnce, depth, keeps_gradients
from warplens_run.trying.fixes.compiled import CompiledModules
from warplens_run.trying.fixes.items import DEEPEST, DeferredItems, Later
from warplens_run.trying.fixes.layout import ChannelsLast
from warplens_run.trying.fixes.loaders import PinnedLoaders, Pinning
from warplens_run.trying.fixes.optimizers import FOREACH, OptimizerStep
from warplens_run.trying.fixes.protocol import Fix
from warplens_run.trying.fixes.switches import Switches, attention_switches
from warplens_run.trying.hooks import Compilations, observe_ops
from warplens_run.trying.known import KNOWN, FixName, fixes_for


def test_switches_of_pytorch_go_on_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    (fix,) = fixes_for([FixName("WL203"), FixName("WL203")], torch)
    assert isinstance(fix, Switches)
    for on in (True, False, True, False):
        fix.switch(on)
        assert torch.backends.cudnn.benchmark is on


def test_a_switch_that_the_program_has_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with pytest.raises(WarplensError, match="cuDNN benchmark: the program has it on already"):
        fixes_for([FixName("WL203")], torch)[0].switch(True)


def test_matmul_precision_goes_on_and_back() -> None:
    before = torch.get_float32_matmul_precision()
    (fix,) = fixes_for([FixName("WL202", "high")], torch)
    fix.switch(True)
    assert torch.get_float32_matmul_precision() == "high"
    fix.switch(False)
    assert torch.get_float32_matmul_precision() == before


def test_a_switch_is_read_in_the_way_that_works() -> None:
    class Place:
        new = "ieee"

        @property
        def old(self) -> bool:
            raise RuntimeError("a mix of both is not supported")

    place = Place()
    fix = Switches("TF32", place, [{"old": True}, {"new": "tf32"}])
    fix.switch(True)
    assert place.new == "tf32"
    fix.switch(False)
    assert place.new == "ieee"
    with pytest.raises(WarplensError, match="a mix of both"):
        Switches("TF32", place, [{"old": True}]).switch(True)


def attention_flags() -> list[bool]:
    names = ("flash", "mem_efficient", "math", "cudnn")
    return [getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in names]


def test_one_back_end_of_attention_is_on_and_then_all_that_were() -> None:
    before = attention_flags()
    fix = attention_switches(torch, "efficient")
    fix.switch(True)
    assert attention_flags() == [False, True, False, False]
    fix.switch(False)
    assert attention_flags() == before


def test_the_ops_of_a_step_are_observed() -> None:
    end = observe_ops(torch)
    query = torch.ones(1, 1, 2, 4)
    torch.nn.functional.scaled_dot_product_attention(query, query, query)
    ops = end()
    assert ops is not None
    assert attention_switches(torch, "math").needs_op in ops
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert observe_ops(torch)() is None


@pytest.mark.parametrize(("kind", "chosen"), [("fused", (True, False)), ("foreach", (False, True))])
def test_an_optimizer_keeps_its_state_whichever_step_it_takes(kind: str, chosen: tuple[bool, bool]) -> None:
    def trained(switching: bool) -> tuple[Any, list[Any]]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        fix, seen = OptimizerStep(torch, kind), []
        for number in range(6):
            if switching:
                fix.switch(number % 2 == 1)
            seen.append((optimizer.param_groups[0]["fused"], optimizer.param_groups[0]["foreach"]))
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().sum().backward()
            optimizer.step()
        if switching:
            fix.switch(False)
            seen.append((optimizer.param_groups[0]["fused"], optimizer.param_groups[0]["foreach"]))
            assert "_step_supports_amp_scaling" not in vars(optimizer)
        return model.weight.detach(), seen

    (plain, _), (switched, seen) = trained(False), trained(True)
    torch.testing.assert_close(plain, switched)
    assert seen == [(None, False), chosen] * 3 + [(None, False)]


def test_an_optimizer_that_takes_the_step_already_is_refused(only: Callable[..., None]) -> None:
    only(torch.optim.AdamW([torch.ones(1, requires_grad=True)], foreach=True))
    with pytest.raises(WarplensError, match="take their foreach step already"):
        OptimizerStep(torch, FOREACH).switch(True)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The objects that the program holds; other tests leave some of theirs."""

    def hold(*objects: Any) -> None:
        for name in ("compiled", "layout", "loaders", "optimizers"):
            monkeypatch.setattr(
                f"warplens_run.trying.fixes.{name}.live",
                lambda kind: [one for one in objects if isinstance(one, kind)],
            )

    return hold


def test_weights_of_convolutions_change_their_layout_and_back(only: Callable[..., None]) -> None:
    layer = torch.nn.Conv2d(3, 8, 3)
    only(layer)
    before = layer.weight.detach().clone()
    fix = ChannelsLast(torch)
    fix.switch(True)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)
    assert layer(torch.randn(2, 3, 9, 9)).is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(WarplensError, match="channels_last weights already"):
        ChannelsLast(torch).switch(True)
    fix.switch(False)
    assert layer.weight.is_contiguous()
    assert torch.equal(layer.weight, before)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = torch.nn.Linear(2, 2)

    def forward(self, value: Any) -> Any:
        return self.mlp(value).relu()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(2, 1)

    def forward(self, value: Any) -> Any:
        for layer in self.layers:
            value = layer(value)
        return self.head(value)


@pytest.fixture
def net(only: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Net:
    """Compiling is counted, and not done."""
    net = Net()
    only(*net.modules(), torch.nn.ReLU())

    def compile_call(call: Callable[..., Any]) -> Callable[..., Any]:
        owner = call.__self__  # type: ignore[attr-defined]
        owner.compiled_calls = []
        return lambda *args: owner.compiled_calls.append(1) or call(*args)

    monkeypatch.setattr(torch, "compile", compile_call)
    return net


@pytest.mark.parametrize(
    ("wanted", "paths"),
    [
        ("", [""]),
        ("Block", ["layers.0", "layers.1"]),
        ("layers", ["layers.0", "layers.1"]),
        ("layers.1", ["layers.1"]),
        ("layers.*.mlp", ["layers.0.mlp", "layers.1.mlp"]),
        ("Linear", ["head", "layers.0.mlp", "layers.1.mlp"]),
    ],
)
def test_chosen_modules_are_called_compiled_and_then_plain_again(net: Net, wanted: str, paths: list[str]) -> None:
    fix = CompiledModules(torch, wanted)
    value = torch.ones(1, 2)
    expected = net(value)
    for number in (1, 2):
        fix.switch(True)
        assert torch.equal(net(value), expected)
        fix.switch(False)
        assert torch.equal(net(value), expected)
        called = {path: len(module.compiled_calls) for path, module in net.named_modules()
                  if "compiled_calls" in vars(module)}  # fmt: skip
        assert called == dict.fromkeys(sorted(paths), number) or called == dict.fromkeys(paths, number)
    assert not any("_compiled_call_impl" in vars(module) for module in net.modules())


def test_modules_that_are_not_there_or_compiled_already_are_refused(net: Net) -> None:
    with pytest.raises(WarplensError, match="no module of the program is 'Encoder'") as refused:
        CompiledModules(torch, "Encoder").switch(True)
    assert refused.value.hint == "classes: Block, Linear, ModuleList, Net"
    net.layers[0]._compiled_call_impl = lambda value: value
    with pytest.raises(WarplensError, match="Block: the program compiles it already"):
        CompiledModules(torch, "Block").switch(True)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of PyTorch's compiler itself
def test_modules_are_compiled_once_and_not_in_every_turn(
    only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, count = Net(), Compilations()
    only(*net.modules())
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    fix, counts = CompiledModules(torch, "Block"), []
    for on in (True, False, True, False):
        fix.switch(on)
        before = count()
        net(torch.ones(1, 2)).sum().backward()
        counts.append(count() - before)
    assert counts[0] > 0
    assert counts[1:] == [0, 0, 0]


def test_compilations_are_counted_with_those_of_backward_passes() -> None:
    import torch._dynamo.callback as callbacks

    count = Compilations()
    assert count() == 0
    callbacks.callback_handler.run_start_callbacks(callbacks.CallbackArgs(callbacks.CallbackTrigger.LAZY_BACKWARD, "0"))
    assert count() == 1
    callbacks.callback_handler.remove_start_callback(count._on_start)


def types_in_a_step(model: Any, optimizer: Any) -> dict[str, Any]:
    """What autocast makes of a product: forward, in the backward pass, in the optimizer, and after all."""
    seen: dict[str, Any] = {}
    other = torch.ones(2, 2)

    def product() -> Any:
        return torch.mm(other, other).dtype

    output = model(other)
    seen["forward"] = output.dtype
    output.register_hook(lambda _: seen.update(backward=product()))
    hook = optimizer.register_step_pre_hook(lambda *_: seen.update(optimizer=product()))
    output.float().sum().backward()
    optimizer.step()
    hook.remove()
    seen["after"] = product()
    return seen


def test_autocast_covers_the_step_but_for_its_backward_pass_and_optimizer() -> None:
    model = torch.nn.Linear(2, 2)
    fix = Bf16Autocast(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plain = types_in_a_step(model, optimizer)
    assert set(plain.values()) == {torch.float32}
    backward, enter = torch.autograd.backward, torch.autocast.__enter__
    for _ in range(2):
        fix.switch(True)
        seen = types_in_a_step(model, optimizer)
        assert seen == {
            "forward": torch.bfloat16, "backward": torch.float32, "optimizer": torch.float32, "after": torch.bfloat16,
        }  # fmt: skip
        fix.switch(False)
        assert types_in_a_step(model, optimizer) == plain
        assert not torch.is_autocast_enabled("cpu")
        assert depth(torch) == 0
    assert (torch.autograd.backward, torch.autocast.__enter__) == (backward, enter)


def test_autocast_sees_weights_as_the_optimizer_leaves_them() -> None:
    weight = torch.ones(1, 1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    fix = Bf16Autocast(torch)
    fix.switch(True)
    torch.mm(torch.ones(1, 1), weight).sum().backward()
    optimizer.step()
    with torch.no_grad():
        assert torch.mm(torch.ones(1, 1), weight).item() == 0.5
    fix.switch(False)


def test_autocast_changes_the_type_of_the_programs_own_regions_and_respects_those_without() -> None:
    def types() -> list[Any]:
        seen = []
        ones = torch.ones(2, 2)
        with torch.autocast("cpu", dtype=torch.float16):
            seen.append(torch.mm(ones, ones).dtype)
            with torch.autocast("cpu", enabled=False):
                seen.append(torch.mm(ones, ones).dtype)
            seen.append(torch.mm(ones, ones).dtype)
        return seen

    fix = Bf16Autocast(torch)
    fix.switch(True)
    assert types() == [torch.bfloat16, torch.float32, torch.bfloat16]
    fix.switch(False)
    assert types() == [torch.float16, torch.float32, torch.float16]
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(WarplensError, match="program's own autocast"):
        fix.switch(True)
    assert depth(torch) == 0


def casts_in(run: Callable[[], object]) -> int:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        run()
    return sum(event.name == "aten::_to_copy" for event in profiler.events())


def test_weights_are_cast_once_for_all_forward_passes_of_a_step() -> None:
    assert keeps_gradients(torch)
    fix = WeightsCastOnce(torch)
    with pytest.raises(WarplensError, match="does not use autocast"):
        fix.switch(True)
    fix = WeightsCastOnce(torch)
    weight = torch.ones(1, 1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.25)
    seen: list[float] = []

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = torch.mm(torch.ones(1, 1, dtype=torch.bfloat16), weight)
            seen.append(float(output.detach()))
            output.sum().backward()
        assert weight.grad is not None
        assert weight.grad.item() == 3
        optimizer.step()

    plain = casts_in(step)
    fix.switch(True)
    once = casts_in(step)
    fix.switch(False)
    assert casts_in(step) == plain
    assert plain - once == 2
    assert seen == [1.0] * 3 + [0.25] * 3 + [-0.5] * 3
    assert depth(torch) == 0


def test_a_later_number_is_read_once_where_it_is_used() -> None:
    reads: list[int] = []

    def later(value: float) -> Later:
        return Later(lambda: reads.append(1) or value)  # type: ignore[func-returns-value]

    number = later(2.5)
    total: Any = 0.0
    total += number
    total = 2 * total + later(1.0) - 0.5
    assert reads == []
    assert f"{total:.2f}" == "5.50"
    assert len(reads) == 2
    assert (str(number), number > 2, number == 2.5, bool(number), int(number)) == ("2.5", True, True, True, 2)
    assert (round(number), round(number, 1), abs(-number), math.sqrt(later(4.0))) == (2, 2.5, 2.5, 2.0)
    assert (number / 2, 5 / number, number**2, number.is_integer(), {number: 1}[2.5]) == (1.25, 2.0, 6.25, False, 1)
    assert type(pickle.loads(pickle.dumps(number))) is float
    assert type(number + 1) is float  # it is known by now
    assert torch.equal(torch.ones(2) * later(3.0), torch.full((2,), 3.0))
    assert max([later(1.0), later(2.0)]) == 2.0


def test_sums_of_later_numbers_do_not_grow_without_end() -> None:
    total: Any = 0.0
    for _ in range(30 * DEEPEST):
        total += Later(lambda: 1.0)
    assert float(total) == 30 * DEEPEST


def test_a_later_number_fails_where_only_a_float_will_do() -> None:
    with pytest.raises(TypeError):
        json.dumps({"loss": Later(lambda: 1.0)})


def test_items_are_read_later_and_all_of_them_before_the_next_turn() -> None:
    reads: list[float] = []

    def read_later(tensor: Any) -> Callable[[], float] | None:
        if not tensor.is_floating_point():
            return None
        value = float(tensor)
        return lambda: reads.append(value) or value  # type: ignore[func-returns-value]

    own = torch.Tensor.item
    fix = DeferredItems(torch, read_later)
    fix.switch(True)
    loss = torch.tensor(1.5)
    value = loss.item()
    loss.add_(1)
    assert isinstance(value, Later)
    assert type(torch.tensor(3).item()) is int
    assert reads == []
    fix.switch(False)
    assert reads == [1.5]
    assert value == 1.5
    assert torch.Tensor.item is own
    assert "item" not in vars(torch.Tensor)
    assert type(loss.item()) is float


def test_items_of_tensors_on_the_host_stay_as_they_are() -> None:
    fix = DeferredItems(torch)
    fix.switch(True)
    try:
        assert type(torch.tensor(1.5).item()) is float
    finally:
        fix.switch(False)


def negated(batch: Any) -> Any:
    """In the place of pinning, which needs a GPU: it can be seen in the numbers, and undone."""
    return -batch


def batches(loader: Any, switches: dict[int, bool], fix: Fix) -> Iterator[float]:
    for number, batch in enumerate(loader):
        yield batch.item()
        if number in switches:
            fix.switch(switches[number])


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_pinned_in_the_middle_of_an_epoch_and_none_is_lost(workers: int, only: Callable[..., None]) -> None:
    loader = torch.utils.data.DataLoader(range(1, 31), batch_size=1, num_workers=workers)  # type: ignore[arg-type]
    fix = PinnedLoaders(torch, Pinning(negated, negated))
    own_iter = torch.utils.data.DataLoader.__iter__
    running = iter(loader)
    only(loader, running)
    seen = list(batches(running, {4: True, 12: False, 14: True, 20: False}, fix))
    expected = [-n if 5 < n <= 13 or 15 < n <= 21 else n for n in range(1, 31)]
    assert seen == expected
    assert torch.utils.data.DataLoader.__iter__ is own_iter
    assert not {"to", "cuda"} & set(vars(torch.Tensor))


def test_epochs_that_begin_with_the_fix_are_pinned_and_unpinned_too(only: Callable[..., None]) -> None:
    loader = torch.utils.data.DataLoader(range(1, 9), batch_size=1, num_workers=1)  # type: ignore[arg-type]
    only(loader)
    fix = PinnedLoaders(torch, Pinning(negated, negated))
    fix.switch(True)
    assert list(batches(loader, {3: False}, fix)) == [-1, -2, -3, -4, 5, 6, 7, 8]
    assert [batch.item() for batch in loader] == list(range(1, 9))


def test_loaders_that_cannot_be_pinned_are_refused(only: Callable[..., None]) -> None:
    only()
    with pytest.raises(WarplensError, match="has no DataLoader"):
        PinnedLoaders(torch, Pinning(negated, negated)).switch(True)
    only(torch.utils.data.DataLoader([1], pin_memory=True))  # type: ignore[arg-type]
    with pytest.raises(WarplensError, match="pin their batches already"):
        PinnedLoaders(torch, Pinning(negated, negated)).switch(True)


def test_copies_from_pinned_memory_do_not_wait(only: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    only(torch.utils.data.DataLoader([1]))  # type: ignore[arg-type]
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor, *args, **kwargs: calls.append(kwargs) or tensor)
    fix = PinnedLoaders(torch, Pinning(negated, negated))
    fix.switch(True)
    tensor = torch.ones(1)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: False)
    tensor.cuda()
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: True)
    tensor.cuda()
    tensor.cuda(non_blocking=False)
    tensor.cuda(0, False)
    fix.switch(False)
    tensor.cuda()
    assert calls == [{}, {"non_blocking": True}, {"non_blocking": False}, {}, {}]


def test_models_get_the_attention_that_is_tried() -> None:
    class Config:
        _attn_implementation = "eager"

    class Model:
        def __init__(self, config: Config, name: str = "") -> None:
            self.used = config._attn_implementation

    fix = ModelAttention("sdpa", Model)
    with pytest.raises(WarplensError, match="sdpa attention: the program builds no model of transformers"):
        fix.switch(True)
    assert Model(Config(), name="x").used == "sdpa"
    fix.switch(True)
    fix.switch(False)


@pytest.mark.parametrize("code", KNOWN)
def test_every_variant_can_be_made_or_says_why_not(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # One of them counts regions until it is first switched on.
    monkeypatch.setattr(torch.autocast, "__enter__", torch.autocast.__enter__)
    for variant in KNOWN[code].variants:
        try:
            (fix,) = fixes_for([FixName(code, variant)], torch)
        except WarplensError as refused:
            assert "no GPU" in str(refused)
        else:
            assert fix.name
