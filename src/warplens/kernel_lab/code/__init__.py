"""The page of a kernel's code: Python lines beside the compiler's texts."""
