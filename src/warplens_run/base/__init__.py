"""What all rooms of all packages stand on: errors, units, files, printable text, the machine, NVML."""
