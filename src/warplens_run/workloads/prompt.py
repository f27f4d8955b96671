"""A prompt as tokens and tokens as text, where the model's tokenizer is on this machine.

Weights are random unless the user names some, and nothing is downloaded for them: the tokenizer is that of the folder
or hub id that was given, else that of the published model, from the local cache of the hub.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.workloads.libraries import load_hub, transformers_class
from warplens_run.workloads.options import RANDOM, Prompt, WorkloadPlan
from warplens_run.workloads.weights import hub_answers


def with_prompt(plan: WorkloadPlan) -> WorkloadPlan:
    """The plan with its prompt as tokens, where the user gave one."""
    options = plan.options
    if options.prompt is None:
        return plan
    tokenizer = _load(plan)
    ids = tuple(tokenizer(options.prompt)["input_ids"])
    if not ids:
        raise UsageError("the prompt has no tokens", hint="give some text", options=("prompt",))
    return replace(plan, prompt=Prompt(ids, tokenizer), prompt_tokens=len(ids))


def check_words(plan: WorkloadPlan, words: int) -> None:
    """Another model's tokenizer may have more tokens than this model has."""
    if plan.prompt is not None and max(plan.prompt.ids) >= words:
        raise UsageError(
            f"the tokenizer's vocabulary of {plan.prompt.words:,} is not that of {plan.model.name} ({words:,})",
            hint="give the tokenizer of this model",
            options=("tokenizer",),
        )


def _load(plan: WorkloadPlan) -> Any:
    options = plan.options
    given = options.tokenizer or (options.weights if options.weights != RANDOM else "")
    name = given or plan.model.hub
    try:
        # The folder in the cache rather than its name, for which transformers wants the model's configuration as well.
        if not Path(name).is_dir() and not (given and hub_answers()):
            name = load_hub().snapshot_download(name, local_files_only=True)
        return transformers_class("AutoTokenizer").from_pretrained(name, trust_remote_code=False)
    except WarplensError:
        raise
    except ImportError as error:
        reason = next(iter(str(error).strip().splitlines()), "")
        raise WarplensError(
            f"the tokenizer of {name} needs another package: {reason}",
            hint="pip install sentencepiece protobuf tiktoken",
        ) from error
    except Exception as error:
        raise WarplensError(
            f"no tokenizer for the prompt: {_where(name, given)}",
            hint=f"on a machine with internet: hf download {plan.model.hub} --include 'tokenizer*' --local-dir DIR; "
            "then name DIR as the tokenizer, or omit the prompt and give lengths",
            options=("tokenizer", "prompt_tokens"),
        ) from error


def _where(name: str, given: str) -> str:
    if Path(name).is_dir():
        return f"the folder {name} has no tokenizer.json or tokenizer.model that transformers can load"
    return (
        f"{name} is not a folder, nor in the local cache of the hub"
        if given
        else f"that of {name} is not on this machine"
    )
