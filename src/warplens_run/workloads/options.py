"""What the user asks of a workload, and the plan that follows once the device is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warplens_run.base.errors import UsageError
from warplens_run.base.units import listed
from warplens_run.workloads.models import MODELS, Mode, Model, Size, find_model

RANDOM = "random"
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""As typed → as torch calls them."""
WORDS = 128
BYTES_PER_ELEMENT = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class WorkloadOptions:
    """One field per option of the command line; None stands for the model's own default."""

    model: str
    tiny: bool = False
    mode: Mode | None = None
    batch: int | None = None
    prompt_tokens: int | None = None
    max_new_tokens: int | None = None
    prompt: str | None = None
    tokenizer: str | None = None
    dtype: str | None = None
    device: str = "auto"
    compile: bool = False
    cuda_graph: bool = False
    tp: int = 1
    weights: str = RANDOM
    load_in_8bit: bool = False
    shape_log: str | None = None
    iterations: int = 3
    warmup: int = 1
    seed: int = 0
    force: bool = False


@dataclass(frozen=True)
class Prompt:
    """The user's text as tokens, with what made them of it."""

    ids: tuple[int, ...]
    tokenizer: Any

    @property
    def words(self) -> int:
        """The size of the tokenizer's vocabulary."""
        return len(self.tokenizer)

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of what a model made, up to the token that ends a text."""
        end = self.tokenizer.eos_token_id
        kept = list(ids)[: list(ids).index(end)] if end in ids else list(ids)
        return str(self.tokenizer.decode(kept, skip_special_tokens=True))


@dataclass(frozen=True)
class WorkloadPlan:
    """A run with nothing left open."""

    options: WorkloadOptions
    model: Model
    mode: Mode
    batch: int
    prompt_tokens: int
    new_tokens: int
    dtype: str
    """As torch calls it."""
    prompt: Prompt | None = None
    """The user's text; None where only lengths are given."""

    @property
    def config(self) -> dict[str, Any]:
        """That of random weights; a tiny model has all words of the tokenizer that reads its prompt."""
        config = dict(self.size.config)
        if self.options.tiny and self.prompt is not None:
            # In steps, so that ranks can share it.
            config["vocab_size"] = max(config["vocab_size"], -(-self.prompt.words // WORDS) * WORDS)
        return config

    @property
    def length_option(self) -> str:
        """The option that says how long sequences are."""
        return "prompt_tokens" if self.prompt is None else "prompt"

    @property
    def size(self) -> Size:
        return self.model.tiny if self.options.tiny else self.model.full

    @property
    def generates(self) -> bool:
        return self.model.task == "generate" and self.mode == "infer"

    @property
    def parameter_dtype(self) -> str:
        """Training keeps its weights in float32; autocast makes the copies of less precision."""
        return "float32" if self.mode == "train" else self.dtype

    @property
    def items_per_iteration(self) -> int:
        """Images, tokens made, or tokens read: what the rate counts."""
        if self.model.task == "images":
            return self.batch
        return self.batch * (self.new_tokens if self.generates else self.prompt_tokens)


def resolve(options: WorkloadOptions, *, default_dtype: str) -> WorkloadPlan:
    """The plan: the model's defaults where the user said nothing."""
    model = find_model(options.model)
    size = model.tiny if options.tiny else model.full
    mode = options.mode or model.mode
    generates = model.task == "generate" and mode == "infer"
    dtype = DTYPES[options.dtype] if options.dtype else default_dtype
    if options.cuda_graph and mode == "train" and dtype == "float16":
        message = "a CUDA graph cannot contain the loss scaling of fp16 training"
        raise UsageError(message, hint="use dtype bf16", options=("dtype",))
    return WorkloadPlan(
        options=options,
        model=model,
        mode=mode,
        batch=options.batch or (size.batch if options.prompt is None else 1),
        prompt_tokens=options.prompt_tokens or size.prompt_tokens,
        new_tokens=(options.max_new_tokens or size.new_tokens) if generates else 0,
        dtype=dtype,
    )


def check(options: WorkloadOptions) -> None:
    """Refuse what cannot go together; needs neither torch nor a device."""
    model = find_model(options.model)
    mode = options.mode or model.mode
    if options.prompt_tokens and model.task == "images":
        raise UsageError(f"{model.name} reads images: prompt_tokens does not apply", hint="batch sets how many")
    if options.max_new_tokens and (model.task != "generate" or mode == "train"):
        raise UsageError(
            f"{model.name} generates no tokens in this mode: max_new_tokens does not apply",
            hint="prompt_tokens sets the length"
            if model.task != "generate"
            else "the mode infer generates, the mode train does not",
        )
    _check_prompt(options, generates=model.task == "generate" and mode == "infer")
    _check_eight_bit(options, model, mode)
    if options.tiny and options.weights != RANDOM:
        raise UsageError("tiny builds a small model of its own: weights do not apply", hint="omit one of them")
    if options.tp > 1 and not model.shards:
        able = listed([other.name for other in MODELS if other.shards])
        raise UsageError(f"{model.name} runs on one device, not over {options.tp}", hint=f"{able} support tp")
    if options.tp > 1 and options.cuda_graph:
        raise UsageError("cuda_graph and tp exclude each other", hint="omit one of them")
    if options.cuda_graph and mode == "train" and model.alibi:
        raise UsageError(
            f"{model.name} builds its mask on the host in each training step, which a CUDA graph cannot contain",
            hint="the mode infer supports cuda_graph",
        )
    if options.shape_log and (options.compile or options.cuda_graph):
        raise UsageError(
            "the shape log cannot see calls inside a compiled model or a CUDA graph",
            hint="log without compile and cuda_graph: the shapes are the same",
        )


def _check_prompt(options: WorkloadOptions, *, generates: bool) -> None:
    if options.prompt is None:
        if options.tokenizer is not None:
            raise UsageError("a tokenizer reads a prompt, and there is none", hint="give both", options=("prompt",))
        return
    if not generates:
        hint = "language models generate in the mode infer"
        raise UsageError(f"{options.model} generates no text in this mode: prompt does not apply", hint=hint)
    if options.prompt_tokens:
        raise UsageError("a prompt has its own length: prompt_tokens does not apply", hint="omit one of them")


def _check_eight_bit(options: WorkloadOptions, model: Model, mode: Mode) -> None:
    """Weights in 8 bits are for inference on one device; the search for outliers waits for the device in each layer."""
    if not options.load_in_8bit:
        return
    others = {
        "the mode train": mode == "train",
        "tp": options.tp > 1,
        "cuda_graph": options.cuda_graph,
        f"{model.name}, whose layers are convolutions,": model.task == "images",
    }
    if excluded := next((name for name, given in others.items() if given), None):
        raise UsageError(f"{excluded} and load_in_8bit exclude each other", hint="omit one of them")
