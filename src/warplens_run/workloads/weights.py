"""Stored weights: a folder in the Hugging Face layout, or the name of a model on the hub.

Errors of the hub and of damaged folders become one line. Code that comes with a checkpoint is never run.
"""

from __future__ import annotations

import os
import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warplens_run.base.errors import WarplensError
from warplens_run.workloads.libraries import load_torch, transformers_class
from warplens_run.workloads.options import WorkloadPlan

HUB_TIMEOUT_S = 5
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


@dataclass(frozen=True)
class Stored:
    name: str
    """The folder or the name on the hub."""
    config: Any
    local_only: bool


def find(plan: WorkloadPlan) -> Stored:
    """The configuration of the stored model; an error where there is none or it is of another family."""
    name = plan.options.weights
    local = Path(name).is_dir()
    if not local and (Path(name).exists() or name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise WarplensError(
            f"weights: {name} is not a folder",
            hint="name a folder with config.json and *.safetensors, or a hub id",
            options=("weights",),
        )
    # Without this look the hub's library would try again for half a minute before it gives up.
    local_only = local or not hub_answers()
    with _explained(name, local=local, reachable=not local_only):
        config = transformers_class("AutoConfig").from_pretrained(name, local_files_only=local_only)
    if config.model_type != plan.model.family:
        raise WarplensError(
            f"{name} is a {config.model_type} model, and {plan.model.name} is a {plan.model.family} model",
            hint="name the workload of that family, or other weights",
        )
    return Stored(name, config, local_only)


def load(plan: WorkloadPlan, stored: Stored) -> Any:
    """The module with its weights, in host memory."""
    torch = load_torch()
    with _explained(stored.name, local=Path(stored.name).is_dir(), reachable=not stored.local_only):
        module, info = transformers_class(plan.model.model_class).from_pretrained(
            stored.name,
            config=stored.config,
            dtype=getattr(torch, plan.parameter_dtype),
            local_files_only=stored.local_only,
            output_loading_info=True,
        )
    missing = sorted(info["missing_keys"])
    if missing:
        raise WarplensError(
            f"{stored.name} lacks {len(missing)} of the model's tensors ({missing[0]} …)",
            hint="the download may be incomplete, or the checkpoint is of another model",
        )
    return module


@contextmanager
def _explained(name: str, *, local: bool, reachable: bool) -> Iterator[None]:
    try:
        yield
    except WarplensError:
        raise
    except Exception as error:
        message = str(error).strip().splitlines() or [type(error).__name__]
        if "ignore_mismatched_sizes" in message[0]:
            message = ["its tensors and its config.json disagree about shapes"]
        if local:
            raise WarplensError(
                f"the weights in {name} cannot be loaded: {message[0]}",
                hint="the folder needs config.json and the weights as *.safetensors",
            ) from error
        if not reachable:
            raise WarplensError(
                f"the hub is not reachable, and {name} is not in the local cache",
                hint=f"on a machine with internet: hf download {name} --local-dir DIR; "
                "then name DIR as the weights here, or use random weights",
                options=("weights",),
            ) from error
        raise WarplensError(
            f"{name} cannot be loaded from the hub: {message[0]}",
            hint="check the name; a gated or private model needs `hf auth login` and access to it",
        ) from error


def hub_answers() -> bool:
    """Whether a connection to the hub can be made; assumed where a proxy stands between."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return False
    if any(os.environ.get(proxy) for proxy in PROXIES):
        return True
    url = urllib.parse.urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    port = url.port or (80 if url.scheme == "http" else 443)
    try:
        with socket.create_connection((url.hostname, port), timeout=HUB_TIMEOUT_S):
            return True
    except OSError:
        return False
