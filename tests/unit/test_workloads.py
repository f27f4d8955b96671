"""Reference workloads: what is refused and how it is said, and on tiny models that the numbers and shapes are right.

The parts that need no torch run everywhere; the rest is skipped where torch or transformers is absent.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import nightly_after
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.printable import clean_lines
from warplens_run.capture import scopes
from warplens_run.cli import workload as verb
from warplens_run.workloads import MODEL_NAMES, WorkloadOptions, memory, run_workload, weights, worker
from warplens_run.workloads.build import Built, build
from warplens_run.workloads.generate import StaticDecoder
from warplens_run.workloads.inputs import make_feed
from warplens_run.workloads.models import find_model
from warplens_run.workloads.options import Prompt, WorkloadPlan, check, resolve
from warplens_run.workloads.phases import PhaseScopes
from warplens_run.workloads.prompt import with_prompt
from warplens_run.workloads.result import render
from warplens_run.workloads.run import make_iteration
from warplens_run.workloads.shape_log import ShapeLog
from warplens_run.workloads.troubles import explained
from warplens_run.workloads.worker import (
    Ranks,
    Worker,
    check_ranks,
    choose_device,
    read_ranks,
)

LANGUAGE_MODELS = ("bloom-560m", "vicuna-7b", "gpt2")
PUBLISHED_PARAMETERS = {
    "bloom-560m": 559_214_592,
    "vicuna-7b": 6_738_415_616,
    "gpt2": 124_439_808,
    "resnet50": 25_557_032,
    "bert": 109_514_298,
}


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("transformers", reason="needs transformers")
    return pytest.importorskip("torch", reason="needs torch")


def tiny(model: str, **options: Any) -> WorkloadPlan:
    return resolve(WorkloadOptions(model, tiny=True, device="cpu", **options), default_dtype="float32")


def built_on_cpu(torch: Any, plan: WorkloadPlan) -> tuple[Built, Worker]:
    here = Worker(torch.device("cpu"))
    return build(plan, here), here


# What needs no torch


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (WorkloadOptions("bert", max_new_tokens=4), "generates no tokens"),
        (WorkloadOptions("gpt2", max_new_tokens=4), "generates no tokens"),
        (WorkloadOptions("resnet50", prompt_tokens=4), "reads images"),
        (WorkloadOptions("gpt2", tiny=True, weights="x"), "weights do not apply"),
        (WorkloadOptions("gpt2", tp=2), "runs on one device"),
        (WorkloadOptions("vicuna-7b", tp=2, cuda_graph=True), "exclude each other"),
        (WorkloadOptions("bloom-560m", cuda_graph=True, mode="train"), "on the host"),
        (WorkloadOptions("gpt2", shape_log="x", compile=True), "cannot see calls"),
        (WorkloadOptions("gpt3"), "no model"),
        (WorkloadOptions("bert", prompt="Hello"), "generates no text"),
        (WorkloadOptions("gpt2", prompt="Hello"), "generates no text"),
        (WorkloadOptions("bloom-560m", prompt="Hello", prompt_tokens=5), "has its own length"),
        (WorkloadOptions("bloom-560m", tokenizer="x"), "reads a prompt"),
        (WorkloadOptions("gpt2", load_in_8bit=True), "the mode train and load_in_8bit exclude each other"),
        (WorkloadOptions("vicuna-7b", load_in_8bit=True, tp=2), "tp and load_in_8bit exclude"),
        (WorkloadOptions("vicuna-7b", load_in_8bit=True, cuda_graph=True), "cuda_graph and load_in_8bit exclude"),
        (WorkloadOptions("resnet50", load_in_8bit=True, mode="infer"), "convolutions"),
    ],
)
def test_options_that_cannot_go_together_are_refused_with_a_hint(options: WorkloadOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        check(options)
    assert refused.value.hint


def test_loss_scaling_is_refused_in_a_graph_also_where_fp16_is_only_the_default() -> None:
    with pytest.raises(UsageError, match="loss scaling"):
        resolve(WorkloadOptions("gpt2", cuda_graph=True), default_dtype="float16")
    assert resolve(WorkloadOptions("gpt2", cuda_graph=True, dtype="bf16"), default_dtype="float16").dtype == "bfloat16"


def test_the_options_of_a_run_read_as_they_were_typed() -> None:
    options = WorkloadOptions("vicuna-7b", tiny=True, tp=2, prompt_tokens=9, shape_log="a b.jsonl")
    assert verb.typed_arguments(options) == [
        "vicuna-7b",
        "--tiny",
        "--prompt-tokens",
        "9",
        "--tp",
        "2",
        "--shape-log",
        "a b.jsonl",
    ]


def test_the_command_for_several_ranks_starts_torchrun_as_this_machine_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchrun").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    options = WorkloadOptions("bloom-560m", tp=2, max_new_tokens=9, shape_log="a b.jsonl")
    command = "--nproc-per-node 2 -m warplens workload bloom-560m --max-new-tokens 9 --tp 2 --shape-log 'a b.jsonl'"
    assert verb.torchrun_command(options) == f"torchrun {command}"
    # One of another Python would not find Warplens.
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python3")
    assert verb.torchrun_command(options) == f"/opt/venv/bin/python3 -m torch.distributed.run {command}"
    recorded = verb.torchrun_command(options, ["profile", "-o", "job"])
    assert recorded.split(" -m ")[2].startswith("warplens profile -o job workload bloom-560m")


def test_only_a_tiny_model_falls_back_to_the_cpu_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "gpu_trouble", lambda torch, device: WarplensError("no GPU visible", hint="use srun"))
    said: list[str] = []
    assert choose_device(None, WorkloadOptions("gpt2", tiny=True), said.append) == "cpu"
    assert said == ["no GPU visible: the tiny model runs on the CPU"]
    assert choose_device(None, WorkloadOptions("gpt2", device="cpu"), said.append) == "cpu"
    for options in (WorkloadOptions("gpt2"), WorkloadOptions("gpt2", tiny=True, device="cuda")):
        with pytest.raises(WarplensError, match="no GPU visible") as refused:
            choose_device(None, options, said.append)
        assert (refused.value.hint or "").startswith("use srun; ")
    assert len(said) == 1


def test_ranks_and_gpus_must_be_as_many_as_tp_asks_for() -> None:
    two = read_ranks({"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"})
    assert two == Ranks(rank=1, local_rank=1, world=2, local_world=2)
    check_ranks(WorkloadOptions("vicuna-7b", tp=2), two, gpus=2)
    check_ranks(WorkloadOptions("vicuna-7b", tp=2), two, gpus=None)
    with pytest.raises(WarplensError, match="2 ranks need 2 GPUs, and torch sees 1"):
        check_ranks(WorkloadOptions("vicuna-7b", tp=2), two, gpus=1)
    with pytest.raises(UsageError, match="without torchrun") as refused:
        check_ranks(WorkloadOptions("vicuna-7b", tp=2), Ranks(), gpus=None)
    assert refused.value.hint == "start it with torchrun, 2 processes"
    with pytest.raises(UsageError, match="2 ranks were started"):
        check_ranks(WorkloadOptions("gpt2"), two, gpus=8)
    with pytest.raises(UsageError, match="not a number"):
        read_ranks({"WORLD_SIZE": "two"})


def test_the_least_memory_counts_weights_cache_scores_and_optimiser() -> None:
    config = SimpleNamespace(num_hidden_layers=3, num_attention_heads=4, hidden_size=32, vocab_size=10)
    plan = replace(tiny("gpt2", mode="infer", batch=2, prompt_tokens=5, max_new_tokens=2), dtype="bfloat16")
    cache = 2 * 3 * 4 * 8 * 2 * 7
    assert memory.least_bytes(plan, parameters=1000, config=config, world=1) == (1000 + cache) * 2
    assert memory.least_bytes(plan, parameters=1000, config=config, world=2) == 1000 * 2 + cache
    eight = memory.least_bytes(plan, parameters=1000, config=config, world=1, in_8bit=700)
    assert eight == 700 + 300 * 2 + cache * 2
    train = tiny("gpt2", mode="train", batch=2, prompt_tokens=5)
    assert memory.least_bytes(train, parameters=1000, config=config, world=1) == 16_000 + 2 * 5 * 10 * 8


def test_the_verb_offers_every_model_and_loads_nothing_heavy_for_it() -> None:
    assert verb.MODELS == MODEL_NAMES
    heavy = {"torch", "transformers", "polars", "msgspec", "rich", "numpy"}
    for module, also in (
        ("warplens_run.cli.workload", {"warplens_run.capture"}),
        ("warplens_run.workloads.run", set()),
    ):
        code = f"import sys, {module}; print(sorted({heavy | also!r} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]", module


# On tiny models, on a CPU


class Recorder:
    """Hears of scopes, as a profiling session does."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, float]]] = []

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        self.heard.append((name, dict(metrics)))

    def exit(self, handle: Any, depth: int) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    scopes.set_recorders((recorder,))
    yield recorder
    scopes.set_recorders(())


@pytest.mark.parametrize("model", nightly_after(1, sorted(MODEL_NAMES, key=lambda name: name == "bloom-560m")))
def test_the_full_models_have_the_published_number_of_parameters(torch: Any, model: str) -> None:
    import transformers

    row = find_model(model)
    with torch.device("meta"):
        config = getattr(transformers, row.config_class)(**row.full.config)
        module = getattr(transformers, row.model_class)(config)
    assert sum(parameter.numel() for parameter in module.parameters()) == PUBLISHED_PARAMETERS[model]


@pytest.mark.parametrize("model", nightly_after(2, sorted(MODEL_NAMES, key=lambda name: name == "resnet50")))
def test_training_learns_its_batch_in_three_named_phases(torch: Any, recorder: Recorder, model: str) -> None:
    plan = tiny(model, mode="train")
    built, here = built_on_cpu(torch, plan)
    iterate = make_iteration(plan, built, here, PhaseScopes())
    losses = [float(iterate()) for _ in range(6)]
    assert sum(losses[3:]) < sum(losses[:3])
    unit, amount = ("images", 2) if model == "resnet50" else ("tokens", 16)
    assert recorder.heard[:3] == [("forward", {unit: amount}), ("backward", {}), ("optimizer", {})]


def test_lower_precision_trains_through_autocast(torch: Any) -> None:
    plan = replace(tiny("gpt2"), dtype="float16")
    built, here = built_on_cpu(torch, plan)
    loss = make_iteration(plan, built, here, PhaseScopes())()
    assert bool(loss.isfinite())
    assert {parameter.dtype for parameter in built.module.parameters()} == {torch.float32}


def greedy(torch: Any, module: Any, ids: Any, count: int) -> Any:
    """The same tokens without any cache: the whole sequence again for each."""
    with torch.no_grad():
        for _ in range(count):
            ids = torch.cat([ids, module(input_ids=ids).logits[:, -1:].argmax(-1)], dim=1)
    return ids[:, -count:]


class Spy:
    """The ops that run inside, by name."""

    def __new__(cls) -> Any:
        from torch.utils._python_dispatch import TorchDispatchMode

        class Mode(TorchDispatchMode):
            def __init__(self) -> None:
                super().__init__()
                self.seen: Counter[str] = Counter()

            def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                self.seen[op.overloadpacket.__name__] += 1
                return op(*args, **(kwargs or {}))

        return Mode()


def test_generation_marks_its_passes_as_serving_engines_do(torch: Any) -> None:
    from warplens.model.iteration_marks import parse_mark

    plan = tiny("bloom-560m", mode="infer", batch=3, prompt_tokens=7, max_new_tokens=3)
    built, here = built_on_cpu(torch, plan)
    decoder = StaticDecoder(torch, plan, built, make_feed(plan, built, here).data).prepare()
    for generate in (make_iteration(plan, built, here, PhaseScopes()), lambda: decoder.generate(PhaseScopes())):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            generate()
        marks = [mark for event in profiler.events() if (mark := parse_mark(event.name))]
        assert [mark.phase for mark in marks] == ["prefill", "decode", "decode"]
        assert (marks[0].context.requests, marks[0].context.query_tokens, marks[0].context.query_keys) == (3, 21, 147)
        assert [mark.generation.key_tokens for mark in marks[1:]] == [24, 27]


@pytest.mark.parametrize("model", LANGUAGE_MODELS)
def test_generation_with_either_cache_makes_the_tokens_of_a_run_without_one(
    torch: Any, recorder: Recorder, model: str
) -> None:
    plan = tiny(model, mode="infer", batch=3, prompt_tokens=7, max_new_tokens=9)
    built, here = built_on_cpu(torch, plan)
    ids = make_feed(plan, built, here).data
    expected = greedy(torch, built.module, ids, 9)
    assert torch.equal(make_iteration(plan, built, here, PhaseScopes())(), expected)
    assert recorder.heard == [("prefill", {"tokens": 21}), ("decode", {"tokens": 24})]
    decoder = StaticDecoder(torch, plan, built, ids).prepare()
    # Twice: the second run must not see what the first left in the cache.
    assert torch.equal(decoder.generate(PhaseScopes()), expected)
    assert torch.equal(decoder.generate(PhaseScopes()), expected)
    decoder.prefill()
    with torch.no_grad(), Spy() as spy:
        decoder.decode()
    # A CUDA graph can hold neither a value read back to the host nor a tensor made on it.
    assert not {"_local_scalar_dense", "lift_fresh", "nonzero"} & set(spy.seen)


@pytest.mark.nightly
def test_a_compiled_model_generates_the_same(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tiny("gpt2", mode="infer")
    built, here = built_on_cpu(torch, plan)
    expected = make_iteration(plan, built, here, PhaseScopes())()
    # The tracing is what could go wrong here; generating C++ for it takes a minute more.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    compiled = replace(plan, options=replace(plan.options, compile=True))
    assert torch.equal(make_iteration(compiled, built, here, PhaseScopes())(), expected)


@pytest.mark.parametrize("model", ("bloom-560m", "vicuna-7b", "gpt2", "bert"))
def test_the_shape_log_accounts_for_every_flop_of_the_run(torch: Any, tmp_path: Path, model: str) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    plan = tiny(model, mode="infer", batch=3)
    built, here = built_on_cpu(torch, plan)
    with ShapeLog(tmp_path / "log.jsonl", built.module) as log, FlopCounterMode(display=False) as counter:
        phases = PhaseScopes(log)
        iterate = make_iteration(plan, built, here, phases)
        # The counter does not know the CPU's fused attention; in plain matrix products it sees all of it.
        with phases.iteration(0), sdpa_kernel(SDPBackend.MATH):
            iterate()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    linear = sum(2 * line["m"] * line["n"] * line["k"] for line in lines if line["kind"] == "linear")
    attention = sum(
        4 * line["batch"] * line["heads"] * line["query_tokens"] * line["kv_tokens"] * line["head_dim"]
        for line in lines
        if line["kind"] == "attention"
    )
    counts = counter.get_flop_counts()
    rotary = sum(sum(of.values()) for name, of in counts.items() if name.endswith(".rotary_emb"))
    batched = sum(flop for op, flop in counts["Global"].items() if "bmm" in str(op))
    assert (attention, linear) == (batched - rotary, sum(counts["Global"].values()) - batched)
    assert all(line["module"] in dict(built.module.named_modules()) for line in lines)
    if model != "bert":
        decode = [line for line in lines if line["phase"] == "decode" and line["kind"] == "attention"]
        assert sorted({(line["query_tokens"], line["kv_tokens"]) for line in decode}) == [(1, 9), (1, 10), (1, 11)]


def test_a_failed_run_leaves_no_log_and_no_hook(torch: Any, tmp_path: Path) -> None:
    built, _ = built_on_cpu(torch, tiny("bert"))
    before = torch.nn.functional.scaled_dot_product_attention
    with pytest.raises(ZeroDivisionError), ShapeLog(tmp_path / "log.jsonl", built.module):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    assert torch.nn.functional.scaled_dot_product_attention is before
    assert not any(module._forward_hooks for module in built.module.modules())


def test_every_iteration_ends_in_a_step_and_says_whether_it_warms_up(
    torch: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    monkeypatch.setattr("warplens_run.capture.step", lambda: steps.append(len(recorder.heard)))
    result = run_workload(WorkloadOptions("bert", tiny=True, device="cpu", warmup=1, iterations=2))
    names = ["warmup", "forward", "iteration", "forward", "iteration", "forward"]
    assert [name for name, _ in recorder.heard] == names
    assert steps == [2, 4, 6]
    assert result is not None
    assert (result.model, result.tiny, result.iterations, result.device) == ("bert", True, 2, "cpu")
    assert result.tokens_per_s == pytest.approx(2 * 8 / (result.mean_ms / 1e3))


def test_stored_weights_give_the_logits_of_the_model_they_come_from(torch: Any, tmp_path: Path) -> None:
    plan = tiny("vicuna-7b", batch=1, prompt_tokens=6)
    built, here = built_on_cpu(torch, plan)
    built.module.save_pretrained(tmp_path / "model")
    ids = make_feed(plan, built, here).data
    options = WorkloadOptions(
        "vicuna-7b", weights=str(tmp_path / "model"), device="cpu", batch=1, prompt_tokens=6, max_new_tokens=2
    )
    loaded = build(resolve(options, default_dtype="float32"), here)
    with torch.no_grad():
        assert torch.equal(loaded.module(ids).logits, built.module(ids).logits)
    (tmp_path / "model" / "model.safetensors").write_bytes(b"\x10" * 40)
    with pytest.raises(WarplensError, match="cannot be loaded"):
        build(resolve(options, default_dtype="float32"), here)
    with pytest.raises(WarplensError, match="is a llama model, and gpt2 is a gpt2 model"):
        weights.find(resolve(replace(options, model="gpt2", max_new_tokens=None), default_dtype="float32"))


def test_without_a_way_to_the_hub_the_error_says_what_to_do(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "hub_answers", lambda: False)
    with pytest.raises(WarplensError, match="hub is not reachable") as refused:
        weights.find(resolve(WorkloadOptions("gpt2", weights="nobody/has-this-model"), default_dtype="float32"))
    assert "--local-dir" in (refused.value.hint or "")
    monkeypatch.undo()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not weights.hub_answers()


def test_too_little_memory_is_said_before_anything_is_built(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_ram", lambda: 2**30)
    plan = resolve(WorkloadOptions("vicuna-7b", device="cpu"), default_dtype="float32")
    with pytest.raises(WarplensError, match=r"needs at least 25\.\d GiB, and 1\.0 GiB are free") as refused:
        build(plan, Worker(torch.device("cpu")))
    assert "tp 2 over more GPUs" in (refused.value.hint or "")
    assert refused.value.options == ("prompt_tokens", "dtype", "tp", "tiny")


def test_running_out_of_memory_and_failing_to_compile_become_one_line(torch: Any) -> None:
    from torch._dynamo.exc import BackendCompilerFailed

    plan = tiny("gpt2")
    with pytest.raises(WarplensError, match="out of GPU memory: tried") as refused, explained(plan):
        raise torch.cuda.OutOfMemoryError("tried to allocate 2 GiB\nmore")
    assert "a smaller batch" in (refused.value.hint or "")
    assert "--" not in (refused.value.hint or "")
    assert refused.value.options[0] == "batch"
    with pytest.raises(WarplensError, match=r"torch\.compile failed"), explained(plan):
        raise BackendCompilerFailed(lambda: None, RuntimeError("no compiler"), None)
    with pytest.raises(RuntimeError, match="something else"), explained(plan):
        raise RuntimeError("something else")


def test_a_seed_decides_the_weights(torch: Any) -> None:
    for model in ("vicuna-7b", "gpt2"):
        first, again, other = (
            [
                parameter.detach().sum().item()
                for parameter in built_on_cpu(torch, tiny(model, seed=seed))[0].module.parameters()
            ]
            for seed in (1, 1, 2)
        )
        assert first == again
        assert first != other


EXPLAIN = "Explain tensor parallelism in one paragraph."


@pytest.fixture(scope="module")
def tokenizer(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small tokenizer of bytes and of the words of a sentence."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["</s>"], initial_alphabet=alphabet)
    made.train_from_iterator([EXPLAIN] * 3, trainer)
    folder = tmp_path_factory.mktemp("tokenizer")
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>").save_pretrained(folder)
    return folder


def test_a_prompt_is_continued_as_the_model_itself_does(torch: Any, tokenizer: Path) -> None:
    import transformers

    options = WorkloadOptions(
        "bloom-560m", tiny=True, device="cpu", prompt=EXPLAIN, tokenizer=str(tokenizer), max_new_tokens=6, iterations=1
    )
    result = run_workload(options)
    assert result is not None
    words = transformers.AutoTokenizer.from_pretrained(tokenizer)
    ids = words(EXPLAIN)["input_ids"]
    assert (result.batch, result.prompt_tokens, result.new_tokens) == (1, len(ids), 6)
    plan = with_prompt(resolve(options, default_dtype="float32"))
    built, _ = built_on_cpu(torch, plan)
    expected = greedy(torch, built.module, torch.tensor([ids]), 6)[0].tolist()
    assert result.text == words.decode(expected)
    assert result.prompt == EXPLAIN
    shown = render(result)
    assert shown.endswith(f"generated text (random weights: it means nothing):\n{clean_lines(words.decode(expected))}")


def test_the_text_ends_where_the_model_ends_it(torch: Any, tokenizer: Path) -> None:
    import transformers

    words = transformers.AutoTokenizer.from_pretrained(tokenizer)
    prompt = Prompt((1,), words)
    ids = words(EXPLAIN)["input_ids"]
    assert prompt.text_of([*ids, words.eos_token_id, 7, 8]) == prompt.text_of(ids) == EXPLAIN


def test_stored_weights_bring_their_tokenizer(torch: Any, tokenizer: Path, tmp_path: Path) -> None:
    import transformers

    config = transformers.BloomConfig(vocab_size=320, hidden_size=32, n_layer=1, n_head=4)
    transformers.BloomForCausalLM(config).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(tokenizer).save_pretrained(tmp_path)
    options = WorkloadOptions(
        "bloom-560m", device="cpu", weights=str(tmp_path), prompt=EXPLAIN, max_new_tokens=2, iterations=1
    )
    result = run_workload(options)
    assert result is not None
    assert result.text
    assert "random" not in render(result)
    small = transformers.BloomConfig(vocab_size=8, hidden_size=32, n_layer=1, n_head=4)
    transformers.BloomForCausalLM(small).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"the tokenizer's vocabulary of 2\d\d is not that of bloom-560m \(8\)"):
        run_workload(options)


def test_without_its_tokenizer_a_prompt_is_one_sentence_and_the_cache_of_the_hub_may_have_it(
    torch: Any, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    plan = tiny("bloom-560m", prompt=EXPLAIN)
    with pytest.raises(WarplensError) as refused:
        with_prompt(plan)
    message = "no tokenizer for the prompt: that of bigscience/bloom-560m is not on this machine"
    assert refused.value.message == message
    assert (refused.value.hint or "").startswith(
        "on a machine with internet: hf download bigscience/bloom-560m --include 'tokenizer*' --local-dir DIR; then"
    )
    assert refused.value.options == ("tokenizer", "prompt_tokens")
    cached = tmp_path / "models--bigscience--bloom-560m"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0123abcd")
    shutil.copytree(tokenizer, cached / "snapshots" / "0123abcd")
    found = with_prompt(plan)
    assert found.prompt is not None
    assert found.prompt_tokens == len(found.prompt.ids) > 5
    assert found.config["vocab_size"] % 128 == 0
    assert found.config["vocab_size"] >= found.prompt.words
    for name, where in (
        (str(tmp_path), f"the folder {tmp_path} has no"),
        ("no/such", "no/such is not a folder, nor in"),
    ):
        with pytest.raises(WarplensError, match="no tokenizer for the prompt") as refused:
            with_prompt(tiny("bloom-560m", prompt=EXPLAIN, tokenizer=name))
        assert where in refused.value.message


def test_without_bitsandbytes_eight_bits_are_refused_by_name(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(WarplensError, match="load_in_8bit needs bitsandbytes, which is not installed") as refused:
        run_workload(WorkloadOptions("vicuna-7b", tiny=True, device="cpu", load_in_8bit=True))
    assert refused.value.hint == "pip install bitsandbytes, or omit it"
    assert refused.value.options == ("load_in_8bit",)


@pytest.mark.parametrize(("model", "linear_calls"), [("bloom-560m", 8), ("vicuna-7b", 14), ("gpt2", 8), ("bert", 13)])
def test_layers_in_eight_bits_multiply_in_eight_bits_what_the_others_do(
    torch: Any, model: str, linear_calls: int
) -> None:
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes")
    usual, here = built_on_cpu(torch, tiny(model, mode="infer"))
    plan = tiny(model, mode="infer", load_in_8bit=True)
    built, _ = built_on_cpu(torch, plan)
    eight = {name: part.weight for name, part in built.module.named_modules() if type(part).__name__ == "Linear8bitLt"}
    assert {weight.dtype for weight in eight.values()} == {torch.int8}
    assert len(eight) == linear_calls
    assert built.parameters == usual.parameters
    ids = make_feed(plan, built, here).data
    with torch.no_grad(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        logits = built.module(ids).logits
    assert [event.name for event in profiler.events()].count("bitsandbytes::int8_linear_matmul") == linear_calls
    with torch.no_grad():
        expected = usual.module(ids).logits
    assert float((logits - expected).norm() / expected.norm()) < 0.02
    assert float((logits - expected).abs().max()) > 0
