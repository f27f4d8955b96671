"""Capture bundles of `warplens profile`: a directory or .zip with a manifest."""
