"""Readings of the GPUs beside a profile: `sensors` asks NVML, `sampling` does so over and over in a process of its own,
`process` starts and ends that.
"""
