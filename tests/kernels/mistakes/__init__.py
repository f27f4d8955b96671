"""Kernels as libraries write them, right as they stand, and how to make a mistake in each.

`# plant(kind): old -> new` above a line says which change of it is the mistake `kind`; `# find(kind)` stands above the
statement at which the tracer should report that mistake.
"""
