"""Small models with random weights for the truth programs: a decoder with a cache, a GPT, a convolutional network.

Every tensor that a step reads and writes stays where it is, so that a CUDA graph can hold the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    layers: int = 4
    width: int = 1024
    heads: int = 16
    vocabulary: int = 8192
    length: int = 512


TINY = Size(layers=2, width=64, heads=4, vocabulary=128, length=32)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class CachedAttention(nn.Module):
    def __init__(self, size: Size, batch: int) -> None:
        super().__init__()
        self.heads, head = size.heads, size.width // size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)
        self.register_buffer("keys", torch.zeros(batch, size.heads, size.length, head))
        self.register_buffer("values", torch.zeros(batch, size.heads, size.length, head))
        angles = torch.arange(size.length)[:, None] / 10000 ** (torch.arange(0, head, 2) / head)
        self.register_buffer("cosines", angles.cos().repeat(1, 2))
        self.register_buffer("sines", angles.sin().repeat(1, 2))

    def forward(self, x: Tensor, position: Tensor, mask: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        query, key, value = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key = self.rotate(query, position), self.rotate(key, position)
        self.keys[:batch].index_copy_(2, position, key)
        self.values[:batch].index_copy_(2, position, value)
        mixed = functional.scaled_dot_product_attention(query, self.keys[:batch], self.values[:batch], attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        return x * self.cosines[position] + turned * self.sines[position]


class DecoderLayer(nn.Module):
    def __init__(self, size: Size, batch: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = Norm(size.width), Norm(size.width)
        self.attention = CachedAttention(size, batch)
        self.gate = nn.Linear(size.width, 3 * size.width, bias=False)
        self.up = nn.Linear(size.width, 3 * size.width, bias=False)
        self.down = nn.Linear(3 * size.width, size.width, bias=False)

    def forward(self, x: Tensor, position: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), position, mask)
        y = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """One token of each sequence, with a cache of fixed length; in parts, for graphs of parts of a step."""

    def __init__(self, size: Size, batch: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(DecoderLayer(size, batch) for _ in range(size.layers))
        self.norm = Norm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.register_buffer("slots", torch.arange(size.length))

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        mask = self.mask(position)
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, position, mask)
        return self.finish(x)

    def mask(self, position: Tensor) -> Tensor:
        return (self.slots <= position[:, None])[None, None]

    def finish(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x[:, -1:])).argmax(-1)


class GPTBlock(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.first_norm, self.second_norm = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.qkv, self.out = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.mlp = nn.Sequential(
            nn.Linear(size.width, 4 * size.width), nn.GELU(), nn.Linear(4 * size.width, size.width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        query, key, value = self.qkv(self.first_norm(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.second_norm(x))


class GPT(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Parameter(torch.zeros(size.length, size.width))
        self.blocks = nn.Sequential(*(GPTBlock(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class ConvBlock(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(before, after, 1, stride=2, bias=False)
        self.first_norm, self.second_norm = nn.BatchNorm2d(after), nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class ConvNet(nn.Module):
    def __init__(self, width: int, classes: int = 100) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.blocks = nn.Sequential(*(ConvBlock(width << n, width << (n + 1)) for n in range(3)))
        self.head = nn.Linear(width << 3, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))
