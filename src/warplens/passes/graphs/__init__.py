"""GPU graphs: their captures, which record ops, frames and shapes but no kernels, joined with their replays, which
record kernels and no ops. `join` does it; each part is a file: the captures and replays of traces, which capture a
launch replays, which kernel is which captured launch, and the rows that are added for it."""
