"""A rank's graph, reduced to the moments that ranks share, gives every recorded time of the bundled traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.profiles.rank_task import RankTask, digest_rank
from warplens.ranks.job import Job
from warplens.ranks.own_pace import JobModel

SAMPLES = Path(__file__).parents[2] / "samples"
WITH_STEPS = [*sorted(SAMPLES.glob("kineto/gpt2_*.json.gz")), *sorted(SAMPLES.glob("ranks/nccl4/*.json.gz"))]
WITHOUT_STEPS = [
    SAMPLES / "kineto" / f"{name}.json.gz" for name in ("bloom_prefill", "cudagraph_infer", "resnet50_train")
]


def model_of(path: Path) -> JobModel:
    return JobModel(Job((digest_rank(RankTask(str(path), 0, "", cache=False)),)))


@pytest.mark.parametrize("path", WITH_STEPS, ids=lambda path: path.name.partition(".")[0])
def test_the_condensed_graph_of_a_sample_reproduces_it(path: Path) -> None:
    model = model_of(path)
    assert len(model.graph.order) == len(model.graph) > 1
    assert (model.recorded.times == model.graph.recorded_ns).all()


@pytest.mark.parametrize("path", WITHOUT_STEPS, ids=lambda path: path.name.partition(".")[0])
def test_without_steps_and_collectives_nothing_is_shared(path: Path) -> None:
    model = model_of(path)
    assert len(model.graph) == 1  # where the trace begins
    assert not model.is_known
