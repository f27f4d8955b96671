"""The reference models: one row each, with the published shape, a tiny one for machines without a GPU, and defaults.

Configuration values are those of `transformers` and of the published checkpoints; what a row does not name is the
default of the library's configuration class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from warplens_run.base.errors import UsageError

Task = Literal["generate", "tokens", "images"]
Mode = Literal["infer", "train"]

LLAMA_SHARDS = {
    "model.layers.*.self_attn.q_proj": "columns",
    "model.layers.*.self_attn.k_proj": "columns",
    "model.layers.*.self_attn.v_proj": "columns",
    "model.layers.*.self_attn.o_proj": "rows",
    "model.layers.*.mlp.gate_proj": "columns",
    "model.layers.*.mlp.up_proj": "columns",
    "model.layers.*.mlp.down_proj": "rows",
    "lm_head": "gathered columns",
}
"""How each matrix of a Llama is cut between the ranks; what is not named is whole on each of them."""
BLOOM_SHARDS = {
    # The rows of the first hold query, key and value head by head, so that equal parts of it are whole heads.
    "transformer.h.*.self_attention.query_key_value": "columns",
    "transformer.h.*.self_attention.dense": "rows",
    "transformer.h.*.mlp.dense_h_to_4h": "columns",
    "transformer.h.*.mlp.dense_4h_to_h": "rows",
    # One matrix: words come in by it and go out.
    "transformer.word_embeddings": "words",
    "lm_head": "gathered columns",
}


@dataclass(frozen=True)
class Size:
    """One size of a model: its configuration and the default sizes of its inputs."""

    config: Mapping[str, Any]
    batch: int
    prompt_tokens: int = 0
    new_tokens: int = 0
    image_size: int = 0


@dataclass(frozen=True)
class Model:
    name: str
    family: str
    """The `model_type` by which transformers knows it."""
    hub: str
    """The published model, whose tokenizer reads a prompt."""
    config_class: str
    model_class: str
    task: Task
    mode: Mode
    full: Size
    tiny: Size
    absolute_positions: bool = False
    """A learned vector per position: a longer sequence than the table has none."""
    alibi: bool = False
    """Positions are a bias made from the two-dimensional mask, so a mask of another form will not do."""
    shards: Mapping[str, str] = field(default_factory=dict)


MODELS = (
    Model(
        name="bloom-560m",
        family="bloom",
        hub="bigscience/bloom-560m",
        config_class="BloomConfig",
        model_class="BloomForCausalLM",
        task="generate",
        mode="infer",
        full=Size(
            {"vocab_size": 250880, "hidden_size": 1024, "n_layer": 24, "n_head": 16},
            batch=8,
            prompt_tokens=128,
            new_tokens=32,
        ),
        tiny=Size(
            {"vocab_size": 128, "hidden_size": 32, "n_layer": 2, "n_head": 4},
            batch=2,
            prompt_tokens=8,
            new_tokens=4,
        ),
        alibi=True,
        shards=BLOOM_SHARDS,
    ),
    Model(
        name="vicuna-7b",
        family="llama",
        hub="lmsys/vicuna-7b-v1.5",
        config_class="LlamaConfig",
        model_class="LlamaForCausalLM",
        task="generate",
        mode="infer",
        full=Size(
            {
                "vocab_size": 32000,
                "hidden_size": 4096,
                "intermediate_size": 11008,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 32,
                "max_position_embeddings": 4096,
                "rms_norm_eps": 1e-5,
                "tie_word_embeddings": False,
            },
            batch=1,
            prompt_tokens=128,
            new_tokens=32,
        ),
        tiny=Size(
            {
                "vocab_size": 128,
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "max_position_embeddings": 256,
                "tie_word_embeddings": False,
            },
            batch=2,
            prompt_tokens=8,
            new_tokens=4,
        ),
        shards=LLAMA_SHARDS,
    ),
    Model(
        name="gpt2",
        family="gpt2",
        hub="openai-community/gpt2",
        config_class="GPT2Config",
        model_class="GPT2LMHeadModel",
        task="generate",
        mode="train",
        full=Size(
            {"vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024},
            batch=8,
            prompt_tokens=512,
            new_tokens=32,
        ),
        tiny=Size(
            {"vocab_size": 128, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
            | {"bos_token_id": 0, "eos_token_id": 0},
            batch=2,
            prompt_tokens=8,
            new_tokens=4,
        ),
        absolute_positions=True,
    ),
    Model(
        name="resnet50",
        family="resnet",
        hub="microsoft/resnet-50",
        config_class="ResNetConfig",
        model_class="ResNetForImageClassification",
        task="images",
        mode="train",
        full=Size(
            {
                "embedding_size": 64,
                "hidden_sizes": (256, 512, 1024, 2048),
                "depths": (3, 4, 6, 3),
                "num_labels": 1000,
            },
            batch=64,
            image_size=224,
        ),
        tiny=Size(
            {"embedding_size": 8, "hidden_sizes": (16, 32, 64, 128), "depths": (1, 1, 1, 1), "num_labels": 10},
            batch=2,
            image_size=64,
        ),
    ),
    Model(
        name="bert",
        family="bert",
        hub="google-bert/bert-base-uncased",
        config_class="BertConfig",
        model_class="BertForMaskedLM",
        task="tokens",
        mode="infer",
        full=Size(
            {
                "vocab_size": 30522,
                "hidden_size": 768,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "intermediate_size": 3072,
                "max_position_embeddings": 512,
            },
            batch=32,
            prompt_tokens=128,
        ),
        tiny=Size(
            {
                "vocab_size": 128,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 64,
                "max_position_embeddings": 64,
            },
            batch=2,
            prompt_tokens=8,
        ),
        absolute_positions=True,
    ),
)
MODEL_NAMES = tuple(model.name for model in MODELS)


def find_model(name: str) -> Model:
    for model in MODELS:
        if model.name == name:
            return model
    raise UsageError(f"no model {name!r}", hint=f"models: {', '.join(MODEL_NAMES)}")
