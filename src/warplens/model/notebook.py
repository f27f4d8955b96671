"""What a notebook shows: a heading, and below it a frame as Polars shows it.

Names come from traces, which are not trusted: the heading is escaped here, the frame by Polars.
"""

from __future__ import annotations

from html import escape
from typing import Final

import polars as pl

from warplens_run.base.printable import encodable

MOST_ROWS: Final = 20
MOST_CHARACTERS: Final = 120
"""Of a text in a cell: Polars' own 30 would cut nearly all names of kernels."""


def shown(heading: str, frame: pl.DataFrame | None = None) -> str:
    """HTML of both, each line of the heading on a line of its own.

    >>> shown("<img> & co")
    '<p>&lt;img&gt; &amp; co</p>'
    """
    # Half a surrogate pair cannot be sent to a browser.
    lines = escape(encodable(heading)).replace("\n", "<br>")
    with pl.Config(tbl_rows=MOST_ROWS, fmt_str_lengths=MOST_CHARACTERS):
        return f"<p>{lines}</p>{'' if frame is None else frame._repr_html_()}"
