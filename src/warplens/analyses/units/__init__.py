"""Units of replay: unique kernels, op calls that can run again, and what a replay measured."""
