"""The page: one HTML file that opens from disk. `pack` holds the data, `page` puts the file together."""

from warplens.outputs.html.page import page_bytes

__all__ = ["page_bytes"]
