"""Proved against measured gains: what experiments measured of each planted fault, and what its repair won.

usage: bench_proofs.py --traces DIR --proofs DIR

DIR holds PAIR.zip and truth.json as gpu_bundles.py writes them; proofs are PAIR.json, which `warplens prove run` writes
for the plan of PAIR.zip. Prints one line per variant; the measured gain is that of gpu_bundles.py's turns.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import warplens
from bench_faults import NAMED_BY
from warplens.model.finding import Finding
from warplens.proof.applying import with_proofs
from warplens_run.formats import proof_result as result_file
from warplens_run.formats.proof_result import ProofResult


def with_variant(proof: ProofResult, code: str, name: str) -> ProofResult:
    """The proof as if only this variant of a finding's experiment had run."""
    experiments = [
        replace(one, variants=tuple(variant for variant in one.variants if variant.name == name))
        for one in proof.experiments
        if one.finding == code
    ]
    return replace(proof, experiments=tuple(experiments))


def proved(profile: warplens.Profile, proof: ProofResult, code: str, name: str) -> Finding | None:
    findings = with_proofs(profile.findings(), with_variant(proof, code, name), profile.model_of_gains)
    return next((one for one in findings if one.code == code and one.proved_gain_ms is not None), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--proofs", type=Path, required=True)
    options = parser.parse_args()
    truth = json.loads((options.traces / "truth.json").read_text())["pairs"]
    print(
        f"{'planted fault':24}{'code':6} {'variant':30}{'GPU ms':>16}{'proved':>8}{'measured':>9}{'ratio':>6}  energy J"
    )
    for pair, code in NAMED_BY.items():
        path = options.proofs / f"{pair}.json"
        if not path.exists():
            continue
        proof = result_file.load(path)
        profile = warplens.open(options.traces / f"{pair}.zip", cache=False)
        assert isinstance(profile, warplens.Profile)
        measured = truth[pair]["gain_ms"]
        names = [variant.name for one in proof.experiments if one.finding == code for variant in one.variants]
        for name in dict.fromkeys(names):
            finding = proved(profile, proof, code, name)
            if finding is None or finding.proved_gain_ms is None:
                print(f"{pair:24}{code:6} {name:30}{'not run':>16}")
                continue
            times = f"{finding.proved_gpu_ms_before:.2f} → {finding.proved_gpu_ms_after:.2f}"
            joules = (finding.proved_joules_before, finding.proved_joules_after)
            energy = f"{joules[0]:.2f} → {joules[1]:.2f}" if None not in joules else "–"
            gain, ratio = finding.proved_gain_ms, finding.proved_gain_ms / measured
            print(f"{pair:24}{code:6} {name[:29]:30}{times:>16}{gain:8.2f}{measured:9.2f}{ratio:6.2f}  {energy}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
