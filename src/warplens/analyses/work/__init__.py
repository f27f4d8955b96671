"""What ran and who launched it.

Tables: `kernels`, `ops`, `arguments`, `modules` (and Python lines), `launches`, `chains`, `comm`, `memory`.
`call_times` measures calls of several kernels, `places` names the line and module that some GPU work comes from.
"""
