"""What all rooms of both packages stand on: errors, units, files, printable text, the machine, NVML."""
