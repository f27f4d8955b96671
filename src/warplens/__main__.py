"""`python -m warplens`, the same as `warplens`."""

import os
import signal
import sys


def _repeat_interrupt(unraisable: "sys.UnraisableHookArgs") -> None:
    """Python drops an interrupt that comes inside a callback, such as that of an import's lock, with a traceback.

    It comes again a moment later: here, too, it would be dropped.
    """
    if unraisable.exc_type is KeyboardInterrupt and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    elif unraisable.exc_type is not ResourceWarning:  # of a module's file, where an interrupt left it open
        sys.__unraisablehook__(unraisable)


def main() -> None:
    """What the `warplens` command runs; Ctrl-C ends it with one word, also while modules are being loaded."""
    sys.unraisablehook = _repeat_interrupt
    try:
        from warplens.collected_code import collected_code

        collected = collected_code()
        from warplens.cli import entry

        entry(collected)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
        os._exit(130)  # an interrupt inside `exec`, as dataclasses use it, would make Python end itself by the signal


if __name__ == "__main__":
    main()
