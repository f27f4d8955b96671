"""Small programs of many kinds, to be timed and recorded: each takes where it runs and returns its step."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

from gpu_run import Run

Step = Callable[[], Any]


class Block(nn.Module):
    def __init__(self, width: int, heads: int, is_causal: bool = True) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    def __init__(self, words: int, layers: int, width: int) -> None:
        super().__init__()
        self.words, self.blocks = nn.Embedding(words, width), nn.Sequential(*(Block(width, 8) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.words(tokens))))


def gpt(
    layers: int, width: int, batch: int, length: int, optimizer: dict[str, bool], amp: bool = True, sync: bool = False
) -> Callable[[Run], Step]:
    def program(run: Run) -> Step:
        words = run.size(32000, 100)
        model = Gpt(words, run.size(layers, 2), run.size(width, 32)).to(run.device)
        choice = optimizer if run.cuda else {}
        descent = torch.optim.AdamW(model.parameters(), 1e-4, **choice)
        tokens = torch.randint(0, words, (batch, run.size(length, 16)), device=run.device)

        def step() -> None:
            descent.zero_grad()
            with torch.autocast(run.device, torch.bfloat16, enabled=amp):
                loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
            loss.backward()
            if sync:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
            descent.step()

        return step

    return program


def trained(run: Run, model: nn.Module, inputs: dict[str, Any], amp: bool, optimizer: dict[str, bool]) -> Step:
    """A model of the transformers library that returns its loss."""
    model = model.to(run.device).train()
    descent = torch.optim.AdamW(model.parameters(), 1e-5, **(optimizer if run.cuda else {}))

    def step() -> None:
        descent.zero_grad()
        with torch.autocast(run.device, torch.bfloat16, enabled=amp):
            loss = model(**inputs).loss
        loss.backward()
        descent.step()

    return step


def bert(run: Run) -> Step:
    config = BertConfig(num_hidden_layers=run.size(6, 1), hidden_size=run.size(512, 32), num_attention_heads=8)
    tokens = torch.randint(0, 1000, (8, run.size(128, 8)), device=run.device)
    return trained(run, BertForMaskedLM(config), {"input_ids": tokens, "labels": tokens}, True, {"fused": True})


def t5(run: Run) -> Step:
    config = T5Config(num_layers=run.size(5, 1), d_model=run.size(384, 32), num_heads=6, decoder_start_token_id=0)
    tokens = torch.randint(0, 1000, (8, run.size(96, 8)), device=run.device)
    model = T5ForConditionalGeneration(config)
    return trained(run, model, {"input_ids": tokens, "labels": tokens}, False, {})


def vit(run: Run) -> Step:
    side = run.size(224, 32)
    config = ViTConfig(num_hidden_layers=run.size(12, 1), hidden_size=run.size(384, 24), num_attention_heads=6,
                              intermediate_size=run.size(1536, 48), image_size=side)  # fmt: skip
    pixels = torch.randn(32, 3, side, side, device=run.device)
    inputs = {"pixel_values": pixels, "labels": torch.randint(0, 2, (32,), device=run.device)}
    return trained(run, ViTForImageClassification(config), inputs, True, {})


def decoding(run: Run) -> Step:
    config = LlamaConfig(num_hidden_layers=run.size(12, 1), hidden_size=run.size(1024, 64), num_attention_heads=8,
                                intermediate_size=run.size(2816, 64), vocab_size=run.size(32000, 100))  # fmt: skip
    model = LlamaForCausalLM(config).to(run.device, torch.bfloat16).eval()
    prompt = torch.randint(0, 100, (4, 32), device=run.device)

    @torch.no_grad()
    def step() -> None:
        output = model(prompt, use_cache=True)
        for _ in range(8):
            word = output.logits[:, -1:].argmax(-1)
            output = model(word, past_key_values=output.past_key_values, use_cache=True)

    return step


def residual(width: int, depth: int, batch: int, side: int, amp: bool, channels_last: bool) -> Callable[[Run], Step]:
    class Residual(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.parts = nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
            )  # fmt: skip

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x + self.parts(x))

    def program(run: Run) -> Step:
        channels = run.size(width, 8)
        body = [Residual(channels) for _ in range(run.size(depth, 1))]
        stem = nn.Conv2d(3, channels, 3, padding=1)
        model = nn.Sequential(stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100))
        images = torch.randn(batch, 3, run.size(side, 8), run.size(side, 8), device=run.device)
        model = model.to(run.device)
        if channels_last:
            model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
        labels = torch.randint(0, 100, (batch,), device=run.device)
        descent = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

        def step() -> None:
            descent.zero_grad()
            with torch.autocast(run.device, torch.float16 if run.cuda else torch.bfloat16, enabled=amp):
                loss = F.cross_entropy(model(images), labels)
            loss.backward()
            descent.step()

        return step

    return program


def cells(cell: type[nn.Module], layers: int, length: int) -> Callable[[Run], Step]:
    def program(run: Run) -> Step:
        width, count = run.size(256, 8), run.size(length, 4)
        model = nn.ModuleList(cell(width, width) for _ in range(layers)).to(run.device)
        head = nn.Linear(width, 1).to(run.device)
        descent = torch.optim.Adam([*model.parameters(), *head.parameters()])
        inputs = torch.randn(count, 64, width, device=run.device)

        def step() -> None:
            states: list[Any] = [None] * layers
            for moment in inputs:
                value = moment
                for number, each in enumerate(model):
                    states[number] = each(value, states[number])
                    value = states[number][0] if isinstance(states[number], tuple) else states[number]
            loss = head(value).square().mean()
            descent.zero_grad()
            loss.backward()
            descent.step()

        return step

    return program


def graph_network(nodes: int, edges: int, width: int, layers: int) -> Callable[[Run], Step]:
    """Messages along the edges of a random graph: gathered, weighted by attention over a node's edges, summed."""

    def program(run: Run) -> Step:
        count, many, wide = run.size(nodes, 20), run.size(edges, 50), run.size(width, 8)
        maps = nn.ModuleList(nn.Linear(wide, wide) for _ in range(layers)).to(run.device)
        weights = nn.ParameterList(nn.Parameter(torch.randn(2 * wide, device=run.device)) for _ in range(layers))
        source, target = torch.randint(0, count, (2, many), device=run.device)
        features = torch.randn(count, wide, device=run.device)
        descent = torch.optim.Adam([*maps.parameters(), *weights])

        def step() -> None:
            x = features
            for linear, weight in zip(maps, weights, strict=True):
                h = linear(x)
                score = F.leaky_relu((torch.cat([h[source], h[target]], 1) * weight).sum(1)).exp()
                total = torch.zeros(count, device=run.device).index_add_(0, target, score)
                message = h[source] * (score / total[target]).unsqueeze(1)
                x = F.elu(torch.zeros_like(h).index_add_(0, target, message))
            loss = x.square().mean()
            descent.zero_grad()
            loss.backward()
            descent.step()

        return step

    return program


def recommender(run: Run) -> Step:
    tables = nn.ModuleList(nn.EmbeddingBag(run.size(100_000, 50), 64, mode="sum") for _ in range(16)).to(run.device)
    top = nn.Sequential(nn.Linear(16 * 64 + 13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
    top = top.to(run.device)
    descent = torch.optim.SGD([*tables.parameters(), *top.parameters()], 0.01)
    batch = run.size(2048, 8)
    words, dense = torch.randint(0, 50, (16, batch, 8)), torch.randn(batch, 13)

    def step() -> None:
        here, numbers = words.to(run.device), dense.to(run.device)
        features = [table(each) for table, each in zip(tables, here, strict=True)]
        loss = F.binary_cross_entropy_with_logits(
            top(torch.cat([numbers, *features], 1)), torch.ones_like(numbers[:, :1])
        )
        descent.zero_grad()
        loss.backward()
        descent.step()
        loss.item()

    return step


def mixture(run: Run) -> Step:
    width, experts = run.size(512, 16), 8
    layers = [
        (nn.Linear(width, experts), [nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
                                     for _ in range(experts)])
        for _ in range(run.size(6, 1))
    ]  # fmt: skip
    model = nn.ModuleList(nn.ModuleList([gate, nn.ModuleList(each)]) for gate, each in layers).to(run.device)
    inputs = torch.randn(run.size(2048, 16), width, device=run.device)
    descent = torch.optim.AdamW(model.parameters(), 1e-4)

    def step() -> None:
        x = inputs
        with torch.autocast(run.device, torch.bfloat16):
            for gate, each in model:
                weight, chosen = gate(x).softmax(-1).topk(2, dim=-1)
                out = torch.zeros_like(x)
                for number, expert in enumerate(each):
                    rows, slot = (chosen == number).nonzero(as_tuple=True)
                    out = out.index_add(0, rows, (expert(x[rows]) * weight[rows, slot].unsqueeze(1)).to(out.dtype))
                x = x + out
            loss = x.float().square().mean()
        descent.zero_grad()
        loss.backward()
        descent.step()

    return step


def denoiser(run: Run) -> Step:
    """Inference of a small diffusion transformer with guidance: two evaluations each of four denoising steps."""
    width = run.size(512, 32)
    model = nn.Sequential(*(Block(width, 8, is_causal=False) for _ in range(run.size(8, 1)))).to(run.device).eval()
    model = model.to(torch.bfloat16)
    noise = torch.randn(2, run.size(256, 16), width, device=run.device, dtype=torch.bfloat16)

    @torch.no_grad()
    def step() -> None:
        x = noise
        for moment in range(4):
            shift = math.cos(moment)
            without, with_it = model(x), model(x + shift)
            x = x - 0.1 * (without + 2.0 * (with_it - without))

    return step


def autoencoder(run: Run) -> Step:
    """A variational autoencoder with group norms and distributions."""
    wide = run.size(64, 8)
    encoder = nn.Sequential(
        nn.Conv2d(3, wide, 4, 2, 1), nn.GroupNorm(4, wide), nn.SiLU(), nn.Conv2d(wide, 2 * wide, 4, 2, 1),
        nn.GroupNorm(4, 2 * wide), nn.SiLU(), nn.Conv2d(2 * wide, 16, 1),
    ).to(run.device)  # fmt: skip
    decoder = nn.Sequential(
        nn.Conv2d(8, 2 * wide, 3, 1, 1), nn.GroupNorm(4, 2 * wide), nn.SiLU(),
        nn.ConvTranspose2d(2 * wide, wide, 4, 2, 1), nn.GroupNorm(4, wide), nn.SiLU(),
        nn.ConvTranspose2d(wide, 3, 4, 2, 1),
    ).to(run.device)  # fmt: skip
    images = torch.randn(16, 3, run.size(64, 16), run.size(64, 16), device=run.device)
    descent = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-4, foreach=False)

    def step() -> None:
        mean, log_scale = encoder(images).chunk(2, 1)
        posterior = torch.distributions.Normal(mean, log_scale.clamp(-4, 4).exp())
        prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
        loss = F.mse_loss(decoder(posterior.rsample()), images)
        loss = loss + 0.1 * torch.distributions.kl_divergence(posterior, prior).mean()
        descent.zero_grad()
        loss.backward()
        descent.step()
        loss.item()

    return step


def physics(run: Run) -> Step:
    """A network whose second derivatives are in the loss, as equations ask for."""
    wide = run.size(128, 8)
    parts = [layer for _ in range(4) for layer in (nn.Linear(wide, wide), nn.Tanh())]
    model = nn.Sequential(nn.Linear(2, wide), nn.Tanh(), *parts, nn.Linear(wide, 1)).to(run.device)
    points = torch.rand(run.size(4096, 16), 2, device=run.device, requires_grad=True)
    descent = torch.optim.Adam(model.parameters())

    def step() -> None:
        value = model(points)
        (slope,) = torch.autograd.grad(value.sum(), points, create_graph=True)
        curves = [torch.autograd.grad(slope[:, axis].sum(), points, create_graph=True)[0][:, axis] for axis in range(2)]
        loss = (sum(curves) + value.squeeze(1).sin()).square().mean()
        descent.zero_grad()
        loss.backward()
        descent.step()

    return step


def value_learning(run: Run) -> Step:
    """Q-learning in an environment in numpy: tiny products, copies to and fro, and host code between them."""
    draw, wide = np.random.RandomState(0), run.size(256, 8)
    model = nn.Sequential(nn.Linear(32, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 6)).to(
        run.device
    )
    slow = copy.deepcopy(model)
    descent = torch.optim.RMSprop(model.parameters(), 1e-3)
    seen = draw.randn(5000, 32).astype(np.float32)
    moves = draw.randn(6, 32).astype(np.float32)

    def step() -> None:
        for _ in range(4):
            rows = draw.randint(0, len(seen), 128)
            now = torch.from_numpy(seen[rows]).to(run.device)
            with torch.no_grad():
                chosen = model(now).argmax(1).cpu().numpy()
            after = np.tanh(0.9 * seen[rows] + 0.1 * moves[chosen])
            seen[rows] = after
            with torch.no_grad():
                goal = torch.from_numpy(after.mean(1)).to(run.device) + slow(
                    torch.from_numpy(after).to(run.device)
                ).amax(1)
            picked = model(now).gather(1, torch.from_numpy(chosen).to(run.device).unsqueeze(1)).squeeze(1)
            loss = F.smooth_l1_loss(picked, goal)
            descent.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            descent.step()

    return step


def images_on_the_host(run: Run) -> Step:
    """Pictures are cropped and scaled in numpy in every step."""
    draw, side = np.random.RandomState(0), run.size(160, 32)
    pictures = draw.randint(0, 255, (16, side, side, 3), dtype=np.uint8)
    half = side // 2
    model = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(run.device)  # fmt: skip
    descent = torch.optim.SGD(model.parameters(), 0.01)

    def transformed(picture: Any) -> Any:
        top, left = draw.randint(0, side - half, 2)
        crop = picture[top : top + half, left : left + half].astype(np.float32) / 255.0
        return (crop[:, ::-1] - crop.mean((0, 1))) / (crop.std((0, 1)) + 1e-3)

    def step() -> None:
        batch = np.stack([transformed(each) for each in pictures]).transpose(0, 3, 1, 2)
        images = torch.from_numpy(np.ascontiguousarray(batch)).to(run.device)
        loss = model(images).logsumexp(1).mean()
        descent.zero_grad()
        loss.backward()
        descent.step()

    return step


def ensemble(run: Run) -> Step:
    members = [
        nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).to(run.device)
        for _ in range(run.size(12, 2))
    ]
    optimizers = [torch.optim.Adam(each.parameters(), fused=True if run.cuda else None) for each in members]
    inputs = torch.randn(512, 16, device=run.device)
    goal = inputs.sum(1, keepdim=True).sin()

    def step() -> None:
        for member, descent in zip(members, optimizers, strict=True):
            descent.zero_grad()
            F.mse_loss(member(inputs), goal).backward()
            descent.step()

    return step


def sequence_to_classes(run: Run) -> Step:
    """PyTorch's own encoder layers, in training, with dropout and a scheduler."""
    width = run.size(256, 16)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, run.size(6, 1)).to(run.device)
    head = nn.Linear(width, 10).to(run.device)
    descent = torch.optim.AdamW([*model.parameters(), *head.parameters()])
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(descent, 1000)
    inputs = torch.randn(16, run.size(64, 8), width, device=run.device)
    labels = torch.randint(0, 10, (16,), device=run.device)

    def step() -> None:
        loss = F.cross_entropy(head(model(inputs).mean(1)), labels, label_smoothing=0.1)
        descent.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        descent.step()
        rates.step()

    return step


PROGRAMS: dict[str, Callable[[Run], Step]] = {
    "gpt_small": gpt(12, 512, 4, 128, {}),
    "gpt_medium": gpt(12, 768, 8, 512, {"foreach": False}, sync=True),
    "gpt_loop": gpt(10, 512, 2, 128, {"foreach": False}),
    "gpt_fp32": gpt(8, 768, 8, 256, {"fused": True}, amp=False),
    "gpt_large": gpt(16, 1024, 16, 1024, {"fused": True}),
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "decoding": decoding,
    "resnet_small": residual(64, 8, 64, 32, False, False),
    "resnet_large": residual(256, 10, 128, 56, True, True),
    "lstm_cells": cells(nn.LSTMCell, 1, 80),
    "gru_cells": cells(nn.GRUCell, 2, 60),
    "graph_small": graph_network(5_000, 40_000, 64, 4),
    "graph_large": graph_network(200_000, 3_000_000, 64, 3),
    "recommender": recommender,
    "mixture": mixture,
    "denoiser": denoiser,
    "autoencoder": autoencoder,
    "physics": physics,
    "value_learning": value_learning,
    "images_on_the_host": images_on_the_host,
    "ensemble": ensemble,
    "encoder": sequence_to_classes,
}
