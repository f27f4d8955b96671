"""Many ranks as one run: what each of them costs the others.

| module | holds |
|---|---|
| `simulation` | a graph of ops of all workers, and the times of its steps with other durations |
| `dependencies` | what each op of an op table has to wait for |
| `what_if` | slowdowns S, S_type, S_rank, S_stage and shares M_W, M_S |
| `op_job` | the op table of a job with its graph and what-ifs, computed once |
| `worker_steps` | computation, transfers and waits of each worker and step |
| `tables` | `job_what_if`, `ranks`, `stragglers` … of an op table |
"""
