"""What the GPU could do: peak rates, bandwidth and sizes, by name, by the trace's own device or from a user's file."""

from warplens.hardware.families import Family, family_of_kernels
from warplens.hardware.gpus import DTYPES, UNITS, FusedAttention, Gpu, Peak, Rates
from warplens.hardware.lookup import gpu_named, gpu_of_device, is_generic
from warplens.hardware.tables import all_gpus
from warplens.hardware.user_file import load_gpu_file

__all__ = [
    "DTYPES",
    "UNITS",
    "Family",
    "FusedAttention",
    "Gpu",
    "Peak",
    "Rates",
    "all_gpus",
    "family_of_kernels",
    "gpu_named",
    "gpu_of_device",
    "is_generic",
    "load_gpu_file",
]
