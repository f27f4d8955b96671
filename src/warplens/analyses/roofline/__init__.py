"""How far each op is from the limit of the GPU.

`costing` joins FLOPs and bytes to the GPU events of each op call, `limits` computes the least time that a GPU needs
for a cost, `tables` makes `roofline`, the tables of its families, `ceilings` and `cost_coverage`.
"""
