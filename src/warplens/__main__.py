"""`python -m warplens`, the same as `warplens`."""

import os
import signal
import sys
from types import FrameType

IMPORTING = "<frozen importlib"
AGAIN_S = 0.002


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C, once no module is being loaded and Polars is left: there it could come out as any error, or end the
    process by a fault or a panic."""
    while frame is not None:
        # Polars calls Python from inside of its own code. By the module's name: any folder may be called polars.
        package, _, _ = str(frame.f_globals.get("__name__")).partition(".")
        if package == "polars" or frame.f_code.co_filename.startswith(IMPORTING):
            _interrupt_soon()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_soon() -> None:
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


def _repeat_interrupt(unraisable: "sys.UnraisableHookArgs") -> None:
    """Python drops an interrupt that comes inside a callback, such as that of an import's lock, with a traceback.

    It comes again a moment later: here, too, it would be dropped.
    """
    if unraisable.exc_type is KeyboardInterrupt and hasattr(signal, "setitimer"):
        _interrupt_soon()
    elif unraisable.exc_type is not ResourceWarning:  # of a module's file, where an interrupt left it open
        sys.__unraisablehook__(unraisable)


def main() -> None:
    """What the `warplens` command runs; Ctrl-C ends it with one word, also while modules are being loaded."""
    sys.unraisablehook = _repeat_interrupt
    # A shell has programs in the background ignore interrupts.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from warplens.collected import collected

        collected().use()
        from warplens.cli import entry

        entry()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
        os._exit(130)  # an interrupt inside `exec`, as dataclasses use it, would make Python end itself by the signal


if __name__ == "__main__":
    main()
