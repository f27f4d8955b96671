"""Capture bundles of `warplens profile`: `reader` opens a directory or .zip with a manifest.

It yields the files of one capture; which of them is the profile, and its format, is decided by `inputs` and `registry`.
"""
