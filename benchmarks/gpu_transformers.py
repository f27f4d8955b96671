"""Models of the transformers library with one planted fault each: no rule was made while looking at them.

usage: gpu_transformers.py --out DIR [--only a,b] [--tiny]

Each program runs in a process of its own: with the fault and repaired it is timed in turns without a profiler, then
recorded with the fault as a capture bundle, as gpu_bundles.py does it. DIR gets NAME.zip each and truth.json. Weights
and inputs are random. On a CPU, `--tiny` proves the code and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import torch
import transformers as models

from gpu_run import Run

Step = Callable[[], Any]
LIMIT_S = 90
ACTIVE, LIGHT = 3, 3
RATE = 1e-5


def optimizer_of(run: Run, model: Any, fused: bool = True) -> Any:
    choice = {"fused": True} if fused and run.cuda else {"foreach": False}
    return torch.optim.AdamW(model.parameters(), lr=RATE, **choice)


def sizes(run: Run, layers: int, width: int, heads: int, wide: int) -> dict[str, int]:
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    return dict(zip(names, (2, 64, 4, 128) if run.tiny else (layers, width, heads, wide), strict=True))


def words(run: Run, batch: int, length: int, vocabulary: int) -> dict[str, Any]:
    shape = (2, 16) if run.tiny else (batch, length)
    tokens = torch.randint(0, run.size(vocabulary, 500), shape, device=run.device)
    return {"input_ids": tokens, "labels": tokens}


def images(run: Run, batch: int) -> dict[str, Any]:
    side = run.size(224, 64)
    pixels = torch.randn(run.size(batch, 2), 3, side, side, device=run.device)
    return {"pixel_values": pixels, "labels": torch.randint(0, 1000, (len(pixels),), device=run.device)}


def trained(
    run: Run,
    model: Any,
    inputs: dict[str, Any],
    dtype: torch.dtype | None,
    optimizer: Any = None,
    look: Step | None = None,
) -> Step:
    """A training step of a model; `look` is called when there are gradients."""
    optimizer = optimizer or optimizer_of(run, model)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(run.device, dtype, enabled=dtype is not None and run.cuda):
            loss = model(**inputs).loss
        loss.backward()
        if look is not None:
            look()
        optimizer.step()

    return step


def bert_fp32(run: Run, fixed: bool) -> Step:
    """fp32 products without TF32; bound by the GPU."""
    config = models.BertConfig(vocab_size=run.size(30528, 512), **sizes(run, 6, 768, 12, 3072))
    model = models.BertForMaskedLM(config).to(run.device).train()
    train = trained(run, model, words(run, 32, 256, 30000), None)

    def step() -> None:
        torch.backends.cuda.matmul.allow_tf32 = fixed
        train()

    return step


def llama_eager_attention(run: Run, fixed: bool) -> Step:
    config = models.LlamaConfig(
        vocab_size=run.size(32000, 512),
        use_cache=False,
        attn_implementation="sdpa" if fixed else "eager",
        **sizes(run, 6, 1024, 16, 2816),
    )
    model = models.LlamaForCausalLM(config).to(run.device).train()
    return trained(run, model, words(run, 4, 2048, 30000), torch.bfloat16)


def neox_odd_vocabulary(run: Run, fixed: bool) -> Step:
    config = models.GPTNeoXConfig(
        vocab_size=run.size(50304 if fixed else 50277, 512),
        use_cache=False,
        attn_implementation="sdpa",
        **sizes(run, 4, 1024, 16, 4096),
    )
    model = models.GPTNeoXForCausalLM(config).to(run.device).train()
    return trained(run, model, words(run, 8, 1024, 50000), torch.bfloat16)


def t5_single_optimizer(run: Run, fixed: bool) -> Step:
    """AdamW, one tensor at a time; bound by the host."""
    layers, width, heads, wide = sizes(run, 6, 512, 8, 2048).values()
    config = models.T5Config(
        num_layers=layers, d_model=width, d_kv=width // heads, d_ff=wide, num_heads=heads, use_cache=False,
        vocab_size=run.size(32128, 512), pad_token_id=0,
    )  # fmt: skip
    config.decoder_start_token_id = 0
    model = models.T5ForConditionalGeneration(config).to(run.device).train()
    return trained(run, model, words(run, 16, 256, 30000), torch.bfloat16, optimizer_of(run, model, fused=fixed))


def vit_items(run: Run, fixed: bool) -> Step:
    """Norms of gradients read on the host, one by one; bound by the host, which hardly waits for them."""
    model = models.ViTForImageClassification(
        models.ViTConfig(num_labels=1000, image_size=run.size(224, 64), **sizes(run, 12, 768, 12, 3072))
    )
    model = model.to(run.device).train()
    some = list(model.parameters())[::10]
    seen: list[Any] = []

    def look() -> None:
        norms = [parameter.grad.norm() for parameter in some if parameter.grad is not None]
        seen[:] = norms if fixed else [norm.item() for norm in norms]

    return trained(run, model, images(run, 32), torch.bfloat16, look=look)


def resnet_nchw(run: Run, fixed: bool) -> Step:
    """Convolutions in NCHW; bound by host and GPU alike."""
    shape = {"depths": [1, 1], "hidden_sizes": [16, 32], "embedding_size": 16} if run.tiny else {}
    layout = torch.channels_last if fixed else torch.contiguous_format
    model = models.ResNetForImageClassification(models.ResNetConfig(num_labels=1000, **shape))
    model = model.to(run.device).train().to(memory_format=layout)
    inputs = images(run, 64)
    inputs["pixel_values"] = inputs["pixel_values"].to(memory_format=layout)
    return trained(run, model, inputs, torch.float16)


PROGRAMS = {
    program.__name__: program
    for program in (
        bert_fp32, llama_eager_attention, neox_odd_vocabulary, t5_single_optimizer, vit_items, resnet_nchw,
    )
}  # fmt: skip


def one_program(run: Run, name: str, out: Path) -> dict[str, Any]:
    from gpu_bundles import in_turns, record

    torch.manual_seed(0)
    steps = {variant: PROGRAMS[name](run, variant == "after") for variant in ("before", "after")}
    result = in_turns(run, steps, "median")
    record(run, steps["before"], ACTIVE, out / f"{name}.zip", LIGHT)
    return {"status": "ok", **result}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=",".join(PROGRAMS), help="programs, separated by commas")
    parser.add_argument("--program", default="", help="one program, in this process")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.program:
        run = Run("cuda" if torch.cuda.is_available() else "cpu", options.tiny)
        answer = one_program(run, options.program, options.out)
        (options.out / f"{options.program}.json").write_text(json.dumps(answer))
        return 0
    truth: dict[str, Any] = {"pairs": {}}
    for name in options.only.split(","):
        command = [sys.executable, __file__, *sys.argv[1:], "--program", name]
        code = subprocess.run(command, timeout=LIMIT_S, check=False).returncode
        answer_file = options.out / f"{name}.json"
        own = json.loads(answer_file.read_text()) if answer_file.exists() else {"status": f"exit {code}"}
        answer_file.unlink(missing_ok=True)
        truth["pairs"][name] = own
        (options.out / "truth.json").write_text(json.dumps(truth, indent=1))
        times = ", ".join(f"{key} {value:.2f}" for key, value in own.items() if key.endswith("_ms"))
        print(f"{name}: {own['status']} {times}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
