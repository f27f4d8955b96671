"""The workload of ops_raw.csv.gz, ops_details.csv.gz and ops_trace.json.gz (H200, CUDA 13.0, Nsight Compute 2025.3.1).

python ops.py trace.json                                    # the trace: three rounds
ncu --set full --profile-from-start off --clock-control none -o ops python ops.py
ncu --import ops.ncu-rep --page raw --csv > ops_raw.csv     # one round
"""

import sys

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):  # noqa: N803 - as everybody writes it
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(x + place, mask=place < n) * 2, mask=place < n)


a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
w = torch.ones(4096, device="cuda", dtype=a.dtype)
out = torch.empty_like(a)
q = torch.randn(4, 16, 1024, 64, device="cuda", dtype=a.dtype)
e = torch.randn(5000, 1024, device="cuda")
i = torch.randint(0, 5000, (8192,), device="cuda")


def one_round():
    s = F.softmax(F.relu(a @ a).float(), -1)
    t = s.to(a.dtype).t().contiguous()
    n = F.layer_norm(t, (4096,), w, w)
    g = F.gelu(n + t)
    F.scaled_dot_product_attention(q, q, q)
    g.sum()
    torch.cat([g, n], 1)
    F.embedding(i, e)
    torch.topk(e, 5)
    e.sort(-1)
    (e @ e.t()).cos_()
    scale_kernel[(16384,)](a, out, a.numel(), 1024)


one_round()
torch.cuda.synchronize()
if len(sys.argv) > 1:
    with torch.profiler.profile(record_shapes=True) as profile:
        for _ in range(3):
            one_round()
        torch.cuda.synchronize()
    profile.export_chrome_trace(sys.argv[1])
else:
    torch.cuda.profiler.start()
    one_round()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
