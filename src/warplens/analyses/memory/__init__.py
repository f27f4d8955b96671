"""Who holds the GPU's memory, from an allocator's snapshot, a profiler's memory events, or both.

`block_sizes` knows the allocator's rules, `replaying` and `profiled` make the history of allocations, `labels` and
`classifying` say what each was for, and the other files make a table each.
"""
