"""Many ranks as one run: a digest of each, one clock, matched collectives, one graph, and the tables of the job.

| module | holds |
|---|---|
| `finding_files`, `digest`, `condensing`, `records` | the files of a job, and what is kept of each rank |
| `host_collectives`, `condensing_host` | the same of ranks whose collectives run on the host, as those of gloo do |
| `matching`, `clocks`, `kinds` | which kernels are one collective, and one clock for all ranks |
| `job`, `job_graph`, `own_pace`, `roles` | the ranks together, and their graphs joined where collectives meet |
| `coverage` | how much of the waiting the recordings show |
| `straggling`, `what_ifs`, `hiding` | who delays the others, since when and why, and what it costs |
| `tables/` | the tables of a job |
"""
