"""Settings from files as defaults of the command line's options."""

from __future__ import annotations

import argparse

from warplens.settings import KEYS, load_settings


def apply_settings(args: argparse.Namespace) -> None:
    """Fills in the options that were not given on the command line."""
    names = [key.name for key in KEYS if hasattr(args, key.name)]
    if not names:
        return
    settings = load_settings()
    for name in names:
        if not getattr(args, name) and not (name == "gpu" and args.gpu_file):
            value = settings[name].value
            setattr(args, name, value if isinstance(value, str) else list(value))
