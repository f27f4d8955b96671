"""How far each op is from the limit of the GPU: costs joined to GPU events, limits, tables."""
