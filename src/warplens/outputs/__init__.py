"""Tables in, files and terminal text out.

Nothing heavy is imported with this package: each writer imports what it needs when it is called.
"""

from warplens.outputs.document import Document, Extras
from warplens.outputs.files import Target, plan_outputs, write
from warplens.outputs.json_text import rows_to_json
from warplens.outputs.registry import OUTPUTS, Output, choose_output
from warplens.outputs.terminal import render_table

__all__ = [
    "OUTPUTS",
    "Document",
    "Extras",
    "Output",
    "Target",
    "choose_output",
    "plan_outputs",
    "render_table",
    "rows_to_json",
    "write",
]
