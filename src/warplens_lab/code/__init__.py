"""The page of `kernel check`: the Python source next to the compiler's texts, linked line by line.

`view.kernel_code` makes the records of the page; sources, lines and facts are its parts.
"""
