"""Estimated against measured gains: what the findings say of each planted fault, and what its repair won.

usage: bench_faults.py [--traces DIR]

DIR holds PAIR.before.json.gz and truth.json as gpu_faults.py writes them (default: samples/faults), or PAIR.zip as
gpu_bundles.py and gpu_transformers.py do. Prints one line per pair: the finding that names the fault, its place among
the findings, its gain, and the measured gain; of a bundle that is its own plain step less the repaired one, since a
host's speed changes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import warplens

ROOT = Path(__file__).resolve().parent.parent
NAMED_BY = {
    "odd_vocab": "WL201",
    "fp32_matmul": "WL202",
    "unfused_attention": "WL204",
    "pointwise_chain": "WL205",
    "cast_pingpong": "WL206",
    "nchw_conv": "WL207",
    "single_tensor_optimizer": "WL208",
    "wave_tail": "WL209",
    "low_occupancy": "WL210",
    "slow_transpose": "WL211",
    "recompute": "WL212",
    "item_sync": "WL301",
    "pageable_copy": "WL302",
    "dataloader_stall": "WL303",
    "graph_gaps": "WL304",
    "straggler_step": "WL305",
    "launch_bound": "WL104",
    # of gpu_transformers.py
    "bert_fp32": "WL202",
    "llama_eager_attention": "WL204",
    "neox_odd_vocabulary": "WL201",
    "t5_single_optimizer": "WL208",
    "vit_items": "WL301",
    "resnet_nchw": "WL207",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=ROOT / "samples" / "faults")
    folder = parser.parse_args().traces
    truth = json.loads((folder / "truth.json").read_text())["pairs"]
    print(f"{'planted fault':26}{'code':7}{'place':>6}{'gain ms':>10}{'measured ms':>13}{'ratio':>7}  other findings")
    for name, code in NAMED_BY.items():
        path = next(
            (path for path in (folder / f"{name}.zip", folder / f"{name}.before.json.gz") if path.exists()), None
        )
        if path is None:
            continue
        profile = warplens.open(path, cache=False)
        found = profile.findings()
        plain_ns = profile.meta.plain_step_ns if isinstance(profile, warplens.Profile) else None
        measured = (plain_ns / 1e6 if plain_ns else truth[name]["before_ms"]) - truth[name]["after_ms"]
        place = next((number for number, each in enumerate(found, start=1) if each.code == code), 0)
        if not place:
            print(f"{name:26}{code:7}{'–':>6}{'–':>10}{measured:13.2f}")
            continue
        finding = found[place - 1]
        gain = f"{'≤ ' * finding.bound}{finding.gain_ms:.2f}"
        others = " ".join(each.code for each in found if each is not finding)
        print(f"{name:26}{code:7}{place:6}{gain:>10}{measured:13.2f}{finding.gain_ms / measured:7.2f}  {others}")
    for path in sorted([*folder.glob("healthy_*.json.gz"), *folder.glob("healthy_*.zip")]):
        found = warplens.open(path, cache=False).findings()
        print(f"{path.name.split('.')[0]:26}{' '.join(f'{each.code} {each.gain_percent:.1f} %' for each in found)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
