"""What `warplens_lab` has for this package, by name: nothing of it is imported before it is asked for."""

from __future__ import annotations

from typing import Final

VERBS: Final = {
    # verb: its class, and the line about it in the help
    "kernel": (
        "warplens_lab.cli:KernelVerb",
        "Look inside a Triton kernel without a GPU: what the compiler makes of it, what each program does",
    )
}
KINDS: Final = {
    # the format that a file declares: what opens the file
    "warplens kernel facts": "warplens_lab.opened.check:open_facts",
    "warplens kernel trace": "warplens_lab.opened.trace:open_kernel_trace",
}
NAMES: Final = {
    # public name: the module that it lives in
    "OpenedCheck": "warplens_lab.opened.check",
    "OpenedKernelTrace": "warplens_lab.opened.trace",
    "trace_kernel": "warplens_lab.opened.trace",
}
PAGES: Final = {
    # kind of document: what makes its page
    "kernel_trace": "warplens_lab.pages.kernel_page:kernel_page_bytes",
    "kernel_code": "warplens_lab.pages.code_page:code_page_bytes",
    "layout": "warplens_lab.pages.layout_page:layout_page_bytes",
}
RULES: Final = "warplens_lab.suggesting.rules:RULES"
TOPICS: Final = "warplens_lab.cli.topics:list_kernel_topics"
TOPIC: Final = "warplens_lab.cli.topics:kernel_topic"
TABLES: Final = "warplens_lab.cli.topics:kernel_tables"
EXPERIMENTS: Final = "warplens_lab.proof.kernel_suggestions:lab_experiments"
UNITS: Final = "warplens_lab.planning.launched_units:launched_unit"
