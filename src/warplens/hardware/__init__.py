"""What the GPU could do: peak rates, bandwidth and sizes, by name, by the trace's own device or from a user's file."""

from warplens.hardware.gpus import DTYPES, UNITS, Gpu, Peak, Rates
from warplens.hardware.lookup import gpu_named, gpu_of_device
from warplens.hardware.tables import all_gpus
from warplens.hardware.user_file import load_gpu_file

__all__ = ["DTYPES", "UNITS", "Gpu", "Peak", "Rates", "all_gpus", "gpu_named", "gpu_of_device", "load_gpu_file"]
