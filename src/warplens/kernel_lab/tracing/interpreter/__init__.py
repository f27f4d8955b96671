"""Triton's interpreter made fit for tracing: its arithmetic corrected, its operations observed."""
