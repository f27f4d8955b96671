"""Layouts of tiles: which thread holds which element, where it lies in shared memory, which bank serves it.

`attributes`, `registers` and `memory` read Triton's layouts, `cute` CuTe's, `arrays` those of CUDA C++; `banks` counts
conflicts for all of them, `exploring` puts a tile beside its padded and swizzled forms.
"""
