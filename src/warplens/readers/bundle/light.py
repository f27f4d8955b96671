"""The light pass of a bundle: steps recorded with the GPU's activity only, read when they are asked for."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from warplens.model.trace import Meta, Trace
from warplens.readers.shared.stored_file import StoredFile, slices
from warplens_run.base.errors import FormatError


class StoredLightPass(msgspec.Struct, frozen=True):
    """The trace of the light pass, and the times at which its steps begin and end."""

    file: StoredFile
    marks_ns: tuple[int, ...]
    """Nanoseconds since 1970, as Kineto's clock: one more than there are steps."""

    def read(self) -> Trace | None:
        """The trace, with its steps marked from 0 on; None where it cannot be read, which the bundle's notes say."""
        if len(self.marks_ns) < 2 or any(end <= start for start, end in pairwise(self.marks_ns)):
            return None
        from warplens.readers.kineto import reader  # few opened bundles are asked for this

        meta = Meta(source=str(self.file.path), format="")
        try:
            text, notes = self.file.unwrap()
            trace = reader.read_chunks(slices(text), meta, notes, step_marks_ns=self.marks_ns)
            if trace is None:
                trace = reader.read(text, meta, notes, step_marks_ns=self.marks_ns)
            return trace
        except FormatError:
            return None
