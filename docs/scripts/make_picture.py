"""Draws docs/report.svg, the README's picture: the real summary of a bundled trace, through rich."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

import warplens
from warplens.outputs.summary import render_summary

WIDTH = 100
SAMPLE = "samples/kineto/gpt2_train_step.json.gz"


def main() -> None:
    profile = warplens.open(SAMPLE, cache=False)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(f"$ warplens report {SAMPLE}", style="dim")
    console.print(render_summary(profile.document(), width=WIDTH))
    svg = console.export_svg(title="warplens report", unique_id="warplens-report")
    # The picture must need no network: the fonts that rich links to are left to the reader's system.
    Path("docs/report.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    main()
