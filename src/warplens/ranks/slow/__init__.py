"""Which ranks delay the others, since when and why.

| module | finds |
|---|---|
| `records` | a `Straggler`, and what its excess consists of |
| `comparing` | what ranks take longer than their peers, and from which step on |
| `causes` | the host, the GPU, data or imbalance, and the place |
| `removing` | the job's graph without some ranks' excess, and what its step then wins |
| `ranks` | slow ranks, replicas and stages, from their own pace |
| `hosts` | hosts that are slower though nobody waits for them, and late starts |
| `gpus` | GPUs that compute much longer, whatever that costs |
| `links` | transfers that take longer than elsewhere or before |
| `experts` | all-to-alls that send one rank more than the others |
"""
