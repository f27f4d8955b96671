"""What ran and who launched it: kernels, ops, modules, launches, chains, communication, memory."""
