"""Trace-event JSON: Kineto's, other programs', JAX's, Proton's and rocprof's, and the ExecutionTrace beside Kineto's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grammar.values import Case, Hostile

Event = dict[str, Any]
HOST = (
    "cpu_op",
    "user_annotation",
    "python_function",
    "cuda_runtime",
    "cuda_driver",
    "cuda_sync",
    "overhead",
    "Trace",
    "Operator",
)
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
OPS = (
    *(
        "aten::mm",
        "aten::addmm",
        "aten::bmm",
        "aten::conv2d",
        "aten::_scaled_dot_product_flash_attention",
        "aten::layer_norm",
    ),
    *(
        "aten::copy_",
        "aten::to",
        "aten::item",
        "aten::add_",
        "autograd::engine::evaluate_function: MmBackward0",
        "Optimizer.step#Adam.step",
    ),
    *(
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "c10d::allreduce_",
        "record_param_comms",
        "nccl:all_reduce",
    ),
)
CALLS = (
    *(
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
    ),
    *("cudaGraphLaunch", "cudaEventRecord", "cudaStreamWaitEvent", "hipLaunchKernel", "cudaMalloc", "cuLaunchKernelEx"),
)
SYNCS = ("Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync")
DTYPES = ("float", "c10::BFloat16", "c10::Half", "int", "long int", "Scalar", "", "GenericList[Tensor]", "ScalarList")


def kineto(h: Hostile) -> Case:
    return Case({"trace.json": h.packed(kineto_text(h))}, "trace.json")


def kineto_text(h: Hostile, rank: int | None = None) -> bytes:
    maker = _Kineto(h)
    header = _header(h, rank)
    events = maker.events()
    if h.lies():
        events.insert(h.rng.randrange(len(events) + 1), h.one(None, 7, [], "x", {}))
    return h.json({**header, "traceEvents": h.maybe_wrong(events)} if h.chance(0.9) else events)


def _header(h: Hostile, rank: int | None) -> dict[str, Any]:
    devices = h.repeat(lambda number: _device(h, number), h.one(0, 1, 1, 2, h.count()))
    header = h.fields(
        schemaVersion=1,
        deviceProperties=devices,
        record_shapes=1,
        with_stack=1,
        profile_memory=1,
        displayTimeUnit="ms",
        cuda_runtime_version=h.whole(11000, 13000),
        cuda_driver_version=h.whole(11000, 13000),
        trace_name=h.text(),
        baseTimeNanoseconds=h.whole(0, 2 * 10**18),
        traceName=h.text(),
    )
    if rank is not None or h.chance(0.3):
        groups = h.repeat(lambda number: _group(h, number))
        header["distributedInfo"] = h.fields(
            backend=h.text("nccl", "gloo"),
            rank=h.whole(0, 8) if rank is None else rank,
            world_size=h.whole(1, 16),
            pg_count=len(groups),
            pg_config=groups,
            nccl_version=h.text("2.21.5"),
        )
    if h.chance(0.2):
        header["warplens_scopes"] = h.repeat(lambda _: _scope(h))
    if h.chance(0.1):
        header["warplens_converted"] = {"moved": h.repeat(lambda _: [h.whole(), h.whole(), h.whole()])}
    return header


def _device(h: Hostile, number: int) -> Event:
    return h.fields(
        id=h.maybe_wrong(number),
        name=h.text("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "AMD Instinct MI300X", "Tesla T4"),
        totalGlobalMem=h.whole(0, 1 << 37),
        computeMajor=h.whole(3, 12),
        computeMinor=h.whole(0, 9),
        numSms=h.whole(1, 304),
        maxThreadsPerBlock=1024,
        maxThreadsPerMultiprocessor=h.whole(0, 2048),
        regsPerBlock=65536,
        warpSize=h.whole(0, 64),
        regsPerMultiprocessor=h.whole(0, 65536),
        sharedMemPerMultiprocessor=h.whole(0, 233472),
    )


def _group(h: Hostile, number: int) -> Event:
    ranks = h.repeat(lambda rank: h.maybe_wrong(rank), h.one(1, 2, 8, h.count()))
    return h.fields(
        pg_name=h.text(str(number)),
        pg_desc=h.text("default_pg", "dp", "tp"),
        backend_config="cuda:nccl",
        pg_size=len(ranks),
        ranks=ranks,
    )


def _scope(h: Hostile) -> list[Any]:
    metrics = {
        str(h.one(f"m{h.rng.randrange(3000)}", "tokens", "flops", h.text())): h.real(0, 1e6)
        for _ in range(h.count(0, 30))
    }
    return [h.maybe_wrong(7), h.text(), h.whole(0, 3), metrics]


class _Kineto:
    """Nested host events on a few threads, with the GPU work that they launch."""

    def __init__(self, h: Hostile) -> None:
        self.h = h
        self.now = h.one(0.0, 1e3, 1.7e15, h.real(0, 1e15) if h.lies() else 5e9)
        self.now = self.now if isinstance(self.now, (int, float)) else 0.0
        self.correlation = 0
        self.list: list[Event] = []
        self.threads = [
            h.one(h.rng.randrange(1, 40_000), "thread", number) for number in range(h.one(1, 1, 2, 5, h.count(1)))
        ]
        self.streams = [7, *range(h.one(0, 1, 3, h.count()))]
        self.deep = h.one(3, 3, 6, 20, 900) if h.chance(0.9) else 0
        self.is_wide = h.chance(0.1)
        """Every name is another."""

    def events(self) -> list[Event]:
        h = self.h
        for pid in range(h.one(1, 1, 2)):
            self._label("process_name", pid, 0, h.text("python", "GPU 0", "/device:GPU:0", "CUDA functions"))
        step_count = h.one(0, 1, 3, 6, h.count())
        for number in range(max(1, step_count)):
            start = self.now
            for _ in range(h.count(1)):
                self._host(h.one(*self.threads), 0)
            if step_count:
                name = h.text(f"ProfilerStep#{h.maybe_wrong(number) if h.lies() else number}")
                self._timed("user_annotation", name, start, self.now - start, 1, self.threads[0])
        if h.chance(0.4):
            self._memory()
        if h.chance(0.3):
            self._begin_end()
        if h.chance(0.15):
            self._spans()
        if h.lies():
            h.rng.shuffle(self.list)
        return self.list

    def _host(self, thread: Any, depth: int) -> None:
        h, start = self.h, self.now
        category = (
            h.text("cpu_op", "cpu_op", "cpu_op", "python_function", "user_annotation") if depth < 2 else h.text(*HOST)
        )
        self.now += h.rng.random() * 3
        if depth < self.deep and h.chance(0.97 if self.deep > 100 else 0.6):
            self._host(thread, depth + 1)
        if h.chance(0.6):
            self._launch(thread)
        self.now += h.rng.random() * h.one(0, 1, 20, 1e-4)
        names = (f"op{len(self.list)}",) if self.is_wide else OPS
        name = (
            h.text(*names)
            if category == "cpu_op"
            else h.text(
                "train.py(12): step", "nn.Module: Linear_0", "torch/nn/modules/module.py(1501): _call_impl", *h.names
            )
        )
        args = h.fields(
            **{
                "External id": h.maybe_wrong(len(self.list)),
                "Sequence number": h.whole(-1, 20),
                "Fwd thread id": h.whole(0, 2),
                "Record function id": h.maybe_wrong(len(self.list)),
                "Ev Idx": len(self.list),
            }
        )
        if category == "python_function":
            args |= h.fields(
                **{
                    "Python id": len(self.list),
                    "Python parent id": h.whole(-1, len(self.list) + 1),
                    "Python module id": h.whole(),
                }
            )
        elif category == "cpu_op" and h.chance(0.6):
            args |= self._shapes()
        self._timed(category, name, start, self.now - start, 1, thread, args)

    def _shapes(self) -> Event:
        h = self.h
        dims = h.repeat(
            lambda _: [h.whole(0, 4096) for _ in range(h.one(0, 1, 2, 2, 3, 4, 40))], h.one(2, 3, 9, h.count(0, 20))
        )
        shapes = h.fields(
            **{
                "Input Dims": dims,
                "Input type": [h.text(*DTYPES) for _ in dims],
                "Input Strides": [[h.whole(0, 4096) for _ in dim] for dim in dims],
                "Concrete Inputs": [h.text("", "1", "True", "[1, 1]", "[0, 0]", "0.125", "None") for _ in dims],
            }
        )
        if h.chance(0.1):
            shapes |= h.fields(
                kernel_backend="triton",
                kernel_file=h.text("/tmp/x/abc.py"),
                kernel_name=h.text("triton_poi_fused_add_0"),
                kernel_kwargs=h.text("XBLOCK=128,num_warps=4"),
                num_warps=h.whole(1, 8),
                num_stages=h.whole(1, 4),
                grid=h.text("grid(4,)"),
            )
        return shapes

    def _launch(self, thread: Any) -> None:
        h, start = self.h, self.now
        call = h.text(*CALLS)
        self.correlation += h.one(1, 1, 1, 1, 0)
        self.now += h.rng.random()
        args = h.fields(**{"correlation": self.correlation, "External id": len(self.list), "cbid": 211})
        self._timed("cuda_runtime", call, start, self.now - start, 1, thread, args)
        kernels = 1 if "Graph" not in str(call) else h.count(0, 40)
        for _ in range(kernels):
            self._gpu(start)
        if h.chance(0.1):
            args = h.fields(
                wait_on_stream=h.one(*self.streams),
                wait_on_cuda_event_record_corr_id=h.whole(-1, 9),
                wait_on_cuda_event_id=h.whole(0, 9),
                correlation=self.correlation,
                device=0,
                stream=h.one(*self.streams),
            )
            self._timed("cuda_sync", h.text(*SYNCS), self.now, h.rng.random(), 0, h.one(*self.streams), args)

    def _gpu(self, start: float) -> None:
        h = self.h
        category = h.text("kernel", "kernel", "kernel", *ON_GPU)
        stream = h.one(*self.streams)
        duration = h.rng.random() * h.one(0, 2, 30, 1e-3)
        args = h.fields(
            **{
                "External id": len(self.list),
                "correlation": self.correlation,
                "device": h.whole(0, 1),
                "stream": stream,
                "queued": 0,
                "registers per thread": h.whole(0, 255),
                "shared memory": h.whole(0, 200_000),
                "est. achieved occupancy %": h.real(0, 100),
                "grid": [h.whole(1, 4000) for _ in range(3)],
                "block": [h.whole(1, 1024) for _ in range(3)],
                "blocks per SM": h.real(0, 9),
            }
        )
        name = f"kernel_{len(self.list)}" if self.is_wide else h.text()
        if category == "gpu_memcpy":
            args |= h.fields(**{"bytes": h.whole(0, 1 << 30), "memory bandwidth (GB/s)": h.real(0, 900)})
            name = h.text("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)")
        elif category == "gpu_memset":
            name = "Memset (Device)"
        elif h.chance(0.1):
            name = h.text(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclKernel_SendRecv"
            )
            args |= self._collective()
        if h.chance(0.1):
            args |= h.fields(**{"graph id": h.whole(0, 3), "graph node id": h.whole(0, 90)})
        begin = start + h.rng.random() * h.one(1, 50)
        self._timed(category, name, begin, duration, 0, stream, args)
        if h.chance(0.3):
            self.list.append(
                h.fields(ph="s", cat="ac2g", id=self.correlation, pid=1, tid=self.threads[0], ts=start, name="ac2g")
            )
            self.list.append(
                h.fields(ph="f", cat="ac2g", id=self.correlation, pid=0, tid=stream, ts=begin, name="ac2g", bp="e")
            )
        if h.chance(0.1):
            for phase in "sf":
                self.list.append(
                    h.fields(
                        ph=phase,
                        cat="fwdbwd",
                        id=h.whole(0, 9),
                        pid=1,
                        tid=self.threads[0],
                        ts=h.maybe_wrong(start),
                        name="fwdbwd",
                    )
                )

    def _collective(self) -> Event:
        h = self.h
        ranks = h.repeat(lambda rank: rank, h.one(2, 8, h.count()))
        return h.fields(
            **{
                "Collective name": h.text("allreduce", "_allgather_base", "send", "recv", "all_to_allv"),
                "In msg nelems": h.whole(0, 1 << 30),
                "Out msg nelems": h.whole(0, 1 << 30),
                "Group size": h.whole(1, 8),
                "dtype": h.text("Float", "BFloat16"),
                "Process Group Name": h.text("0", "1"),
                "Process Group Description": h.text("default_pg"),
                "Process Group Ranks": h.one(str(ranks), ranks, "[0, 1, ...]"),
                "Seq": h.whole(0, 9),
                "Src Rank": h.whole(0, 8),
                "Dst Rank": h.whole(0, 8),
                "In split size": h.one("[]", "[1, 2]", ranks),
                "Out split size": h.one("[]", "[9" + "9" * 50 + "]"),
            }
        )

    def _memory(self) -> None:
        h = self.h
        for _ in range(h.count()):
            args = h.fields(
                **{
                    "Bytes": h.whole(-(1 << 20), 1 << 20),
                    "Total Allocated": h.whole(0, 1 << 30),
                    "Total Reserved": h.whole(0, 1 << 31),
                    "Device Id": h.whole(-1, 1),
                    "Device Type": h.one(0, 1, 6, h.whole()),
                    "Addr": h.whole(0, 1 << 40),
                    "Ev Idx": 1,
                }
            )
            self.list.append(
                h.fields(
                    ph="i",
                    cat="cpu_instant_event",
                    s="t",
                    name="[memory]",
                    pid=1,
                    tid=h.one(*self.threads),
                    ts=self._time(h.rng.random() * self.now),
                    args=args,
                )
            )

    def _begin_end(self) -> None:
        h = self.h
        for _ in range(h.count()):
            self.list.append(
                h.fields(
                    ph=h.one("B", "B", "E"),
                    cat="cpu_op",
                    name=h.text(),
                    pid=1,
                    tid=self.threads[0],
                    ts=self._time(h.rng.random() * self.now),
                )
            )

    def _spans(self) -> None:
        """Spans and counters of other programs, and annotations around everything."""
        h = self.h
        self._timed(
            h.text("Trace", "user_annotation", "overhead"),
            h.text("PyTorch Profiler (0)", "CUPTI", "Buffer Flush"),
            0.0,
            self.now,
            "Spans",
            "x",
        )
        for _ in range(h.count()):
            self.list.append(h.fields(ph="C", name=h.text(), pid=1, ts=self._time(self.now), args={"v": h.real()}))

    def _timed(
        self, category: Any, name: Any, start: float, duration: float, pid: Any, tid: Any, args: Event | None = None
    ) -> None:
        h = self.h
        ts, dur = self._time(start), self._time(duration)
        self.list.append(h.fields(ph="X", cat=category, name=name, pid=pid, tid=tid, ts=ts, dur=dur, args=args or {}))

    def _time(self, value: float) -> Any:
        return self.h.real(value, value)

    def _label(self, kind: str, pid: Any, tid: Any, name: Any) -> None:
        self.list.append(self.h.fields(ph="M", name=kind, pid=pid, tid=tid, ts=0, args={"name": name}))


def execution_trace(h: Hostile) -> Case:
    """A Kineto trace whose ops have record function ids, and an ExecutionTrace of some of them."""
    names, shapes = [h.one(*OPS) for _ in range(h.count(1))], [[h.rng.randrange(1, 9)] for _ in range(3)]
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": 10 * number,
            "dur": 9,
            "args": h.fields(
                **{
                    "External id": number + 1,
                    "Record function id": number + 1,
                    "Ev Idx": number,
                    "Input Dims": shapes,
                    "Input type": ["float"] * 3,
                }
            ),
        }
        for number, name in enumerate(names)
    ]
    gpu = [
        {
            "ph": "X",
            "cat": category,
            "name": h.text(),
            "pid": 0,
            "tid": 7,
            "ts": 10 * number + shift,
            "dur": 2,
            "args": {"External id": number + 1, "correlation": number + 1, "device": 0, "stream": 7},
        }
        for number in range(len(names))
        for category, shift in (("cuda_runtime", 1), ("kernel", 4))
    ]
    trace = h.json({"schemaVersion": 1, "traceEvents": events + gpu})
    nodes = h.repeat(lambda number: _node(h, number, names[number % len(names)], shapes), h.one(len(names), h.count()))
    schema = h.text("1.1.1-chakra.0.0.4", "1.0.2-chakra.0.0.4", "1.0.1", "1.0.0")
    calls = h.json(h.fields(schema=schema, pid=h.whole(1, 9), time="2026", start_ts=h.whole(0, 9), nodes=nodes))
    return Case(
        {"trace.json": trace, "calls.json": h.packed(calls)}, "trace.json", ("--execution-trace", "{calls.json}")
    )


def _node(h: Hostile, number: int, name: str, shapes: list[Any]) -> Event:
    tensor = [
        h.whole(0, 99),
        h.whole(0, 99),
        h.whole(0, 9),
        h.whole(0, 1 << 20),
        h.whole(1, 8),
        h.text("cuda:0", "cpu"),
    ]
    values = h.repeat(lambda _: h.one(tensor, [tensor], 1, "<None>", h.text(), [[]]), h.one(3, 3, h.count(0, 30)))
    types = [h.text("Tensor(float)", "GenericList[Int,Int]", "Int", "None", "GenericList[" * 50) for _ in values]
    given = h.fields(values=values, shapes=h.one(shapes, [[]] * len(values)), types=types, strides=h.one([], shapes))
    attributes = {
        "rf_id": h.maybe_wrong(number + 1),
        "fw_parent": 0,
        "seq_id": h.whole(-1, 9),
        "scope": h.whole(0, 7),
        "tid": h.whole(1, 3),
        "fw_tid": 0,
        "op_schema": h.text(
            "aten::mm(Tensor self, Tensor mat2) -> Tensor",
            "aten::add.Tensor(Tensor self, *, Scalar alpha=1) -> Tensor",
            "x(" * 200,
        ),
        "kernel_backend": h.text("", "triton"),
        "kernel_file": h.text("", "/tmp/abc.py"),
        "tensor_range": h.text("", '{"0":[0,9]}', "{"),
        "comm_id": "",
        "pg_name": h.text("0"),
        "pg_desc": "",
        "group_size": h.whole(1, 8),
        "collective_name": h.text("allreduce"),
        "in_msg_nelems": h.whole(),
    }
    if h.chance(0.2):
        return h.fields(
            id=number,
            name=name,
            rf_id=number + 1,
            parent=h.whole(0, 9),
            op_schema=attributes["op_schema"],
            inputs=values,
            input_shapes=shapes,
            input_types=types,
            outputs=values,
            output_shapes=shapes,
            output_types=types,
        )
    attrs = h.repeat(
        lambda at: h.fields(name=list(attributes)[at], type="string", value=list(attributes.values())[at]),
        len(attributes),
    )
    name = h.text("record_param_comms", "## process_group:init ##", name) if h.chance(0.1) else name
    return h.fields(
        id=h.maybe_wrong(number + 2), name=name, ctrl_deps=h.whole(0, 9), inputs=given, outputs=given, attrs=attrs
    )


def chrome(h: Hostile) -> Case:
    """Complete events, begins and ends of another program, with odd processes and threads."""
    events = [
        h.fields(
            ph="M",
            name="process_name",
            pid=pid,
            args={"name": h.text("GPU 0", "/device:GPU:0", "main", "CUDA functions", "GPU (x)")},
        )
        for pid in (0, 1)
    ]
    processes = h.one([0, 1], ["GPU", "cpu"], list(range(h.count(1))))
    depth = 0.0
    for number in range(h.count()):
        depth = h.one(depth + 0.1, 0.0, float(number))
        events.append(
            h.fields(
                ph=h.one("X", "X", "X", "B", "E", "i", "C", "s", "b", "P"),
                name=h.text(f"f{number}", *h.names),
                pid=h.one(*processes),
                tid=h.whole(0, 3),
                ts=h.real(0, 1e5),
                dur=h.real(0, 1e3 * depth),
                id=h.whole(),
                cat=h.text("a", "kernel,x", ""),
                args=h.one({}, {"v": h.real()}, {"name": h.text()}),
            )
        )
    return Case({"trace.json": h.packed(h.json(h.one({"traceEvents": events}, events)))}, "trace.json")


def jax_json(h: Hostile) -> Case:
    events: list[Event] = []
    for pid, name in (
        (1, "/device:GPU:0"),
        (2, "/host:CPU"),
        (3, h.text("/device:GPU:" + "9" * 9, "/host:metadata", "/device:TPU:0")),
    ):
        events.append(h.fields(ph="M", pid=pid, name="process_name", args={"name": name}))
        for tid in range(h.one(1, 2, h.count())):
            events.append(
                h.fields(
                    ph="M",
                    pid=pid,
                    tid=tid,
                    name="thread_name",
                    args={
                        "name": h.text(
                            "Stream #1(Kernel,Memcpy)", "XLA Ops", "python", "py_xla", "Steps", "XLA Modules"
                        )
                    },
                )
            )
    for number in range(h.count()):
        on_gpu = h.chance(0.5)
        args = h.fields(
            correlation_id=h.one(str(number), h.whole(0, 99)),
            hlo_op=h.text("fusion.1", "dot.2"),
            hlo_module=h.text("jit_step(" + "1" * 30 + ")", "jit_step"),
            program_id=h.text("1", "9" * 30),
            kernel_details=h.text(
                "regs:32 static_shared:0 dynamic_shared:0 grid:4,1,1 block:256,1,1 occ_pct:50",
                "regs:" + "9" * 400,
                "grid:," * 30,
            ),
            memcpy_details=h.text("kind_src:host kind_dst:device size:4096 dest:0"),
            step_num=h.one("3", h.whole()),
            name=h.text("jit(f)/jvp(x)/dot", "jit(" * 300 + ")" * 300, "a/" * 2000),
            bytes_allocated=h.whole(0, 9),
        )
        events.append(
            h.fields(
                ph="X",
                pid=1 if on_gpu else 2,
                tid=h.whole(0, 2),
                ts=h.real(0, 1e4),
                dur=h.real(0, 50),
                name=h.text(
                    "fusion_1",
                    "loop_add_fusion",
                    "$train.py:12 step",
                    "PjitFunction(step)",
                    "cuLaunchKernel",
                    "MemcpyD2H",
                    "MemoryAllocation",
                    *h.names,
                ),
                args=args,
            )
        )
    return Case(
        {
            "x.trace.json": h.packed(
                h.json({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]})
            )
        },
        "x.trace.json",
    )


def proton_trace(h: Hostile) -> Case:
    """Kernels with their callers, or regions inside kernels; one document, or one a line."""
    make = h.one(_proton_kernel, _proton_region)
    stack = ["ROOT", *(h.text("train.py:3@main", "layer", *h.names) for _ in range(h.one(1, 3, 40, 900)))]
    documents = [[make(h, stack, number) for number in range(h.count(1))] for _ in range(h.one(1, 1, 3))]
    first = documents[0][0]
    if isinstance(first, dict) and isinstance(first.get("args"), dict):
        first["args"]["call_stack"] = stack
    return Case(
        {
            "x.chrome_trace": h.packed(
                b"\n".join(h.json({"displayTimeUnit": "us", "traceEvents": events}) for events in documents)
            )
        },
        "x.chrome_trace",
    )


def _proton_kernel(h: Hostile, stack: list[Any], number: int) -> Event:
    args = h.fields(
        call_stack=h.one(stack, stack[: number % len(stack) + 1], ["ROOT"]),
        metrics={str(h.text("flops", "bytes (inc)", f"m{number}")): h.real(0, 1e9) for _ in range(h.count(0, 4))},
    )
    return h.fields(
        ph=h.text("X", "X", "M", "s", "f"),
        name=h.text(),
        cat=h.text("kernel", "scope", "metric"),
        pid=h.text("0", "GPU 0"),
        tid=h.text("stream 7", "thread 1"),
        ts=h.real(0, 1e4),
        dur=h.real(0, 9),
        id=h.whole(),
        bind_id=h.whole(),
        flow_out=h.chance(0.5),
        flow_in=h.chance(0.5),
        args=args,
    )


def _proton_region(h: Hostile, stack: list[Any], number: int) -> Event:
    args = h.fields(
        **{
            "Finalization Time (ns)": h.real(0, 900),
            "Frequency (MHz)": h.real(1000, 1000),
            "Init Time (ns)": h.whole(0, 9),
            "call_stack": stack,
        }
    )
    core, block, warp = h.whole(0, 131), h.whole(0, 900), h.whole(0, 8)
    return h.fields(
        ph=h.text("X", "X", "X", "s", "f"),
        name=h.text("load", "store", "mma"),
        cat=h.text("k"),
        cname="good",
        pid=h.text(f"k Core{core} CTA{block}"),
        tid=h.text(f"warp {warp} (line 0)", f"warp {number}"),
        ts=h.real(0, 50),
        dur=h.real(0, 1),
        id=h.whole(0, 9),
        args=args,
    )


def rocprofv3_json(h: Hostile) -> Case:
    kinds = ["NONE", "HIP_RUNTIME_API", "MARKER_CORE_API", "MEMORY_COPY", "KERNEL_DISPATCH", "RCCL_API"]
    agents = h.repeat(
        lambda number: h.fields(
            id={"handle": h.maybe_wrong(number)},
            type=h.whole(1, 2),
            name=h.text("gfx942", "CPU"),
            product_name=h.text("AMD Instinct MI300X"),
            cu_count=h.whole(0, 304),
            wave_front_size=h.whole(32, 64),
            logical_node_type_id=h.whole(-1, 3),
        ),
        h.one(2, 3, h.count()),
    )
    symbols = h.repeat(
        lambda number: h.fields(
            kernel_id=h.maybe_wrong(number),
            kernel_name=h.text("gemm.kd", *h.names),
            formatted_kernel_name=h.text(),
            arch_vgpr_count=h.whole(0, 512),
        )
    )

    def record(number: int) -> Event:
        info = h.fields(
            agent_id={"handle": h.numbered(len(agents))},
            queue_id={"handle": h.whole(0, 3)},
            kernel_id=h.numbered(len(symbols)),
            group_segment_size=h.whole(0, 65536),
            workgroup_size=h.fields(x=h.whole(0, 1024), y=h.whole(1, 4), z=1),
            grid_size=h.fields(x=h.whole(0, 1 << 20), y=h.whole(0, 9), z=1),
        )
        start = h.rng.randrange(10**6)
        return h.fields(
            size=64,
            kind=h.whole(0, 5),
            operation=h.whole(0, 3),
            thread_id=h.whole(0, 3),
            correlation_id={"internal": h.whole(0, 50), "external": 0},
            start_timestamp=h.whole(start, start),
            end_timestamp=h.whole(start, start + 9000),
            dispatch_info=info,
            dst_agent_id={"handle": h.numbered(len(agents))},
            src_agent_id={"handle": 0},
            bytes=h.whole(0, 1 << 30),
        )

    buffers = {
        name: h.repeat(record) for name in ("kernel_dispatch", "memory_copy", "hip_api", "rccl_api", "marker_api")
    }
    strings = {
        "buffer_records": [
            h.fields(
                kind=kind, operations=h.repeat(lambda _: h.text("hipLaunchKernel", "MEMORY_COPY_HOST_TO_DEVICE"), 3)
            )
            for kind in kinds
        ],
        "marker_api": h.repeat(lambda number: h.fields(key=number, value=h.text())),
    }
    tool = h.fields(
        metadata={"pid": h.whole(1, 99)}, agents=agents, strings=strings, kernel_symbols=symbols, buffer_records=buffers
    )
    return Case({"results.json": h.packed(h.json({"rocprofiler-sdk-tool": [tool] * h.one(1, 1, 2)}))}, "results.json")


def rocprof_v1(h: Hostile) -> Case:
    names = {
        1: "COPY",
        2: "CPU HIP API",
        3: "CPU HSA API",
        4: "Markers and Ranges",
        6: "GPU0",
        8: "GPU2",
        520: "GPU Barriers2",
    }
    events: list[Any] = [
        {},
        *({"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name"} for pid, name in names.items()),
    ]
    for number in range(h.count(1)):
        begin = h.rng.randrange(10**6) + 3_497_798_443_427_445
        end = begin + h.rng.randrange(9000)
        args = {
            "BeginNs": h.one(str(begin), h.whole(begin, begin)),
            "EndNs": h.text(str(end)),
            "dev-id": h.text("0", "2"),
            "queue-id": h.text("0"),
            "stream-id": h.text("1", str(number)),
            "Name": h.text(),
            "DurationNs": "1",
        }
        if h.chance(0.5):
            del args["dev-id"]
        events.append(
            h.fields(
                ph="X",
                name=h.text("hipLaunchKernel", "CopyHostToDevice", *h.names),
                pid=h.one(*names),
                tid=h.whole(0, 3),
                ts=str(begin // 1000),
                dur="1",
                args=h.fields(**args),
            )
        )
        if h.chance(0.3):
            events += [
                h.fields(
                    ts=h.one(begin // 1000, str(begin)),
                    ph=phase,
                    cat="DataFlow",
                    id=h.whole(0, 9),
                    pid=h.one(*names),
                    tid=h.whole(0, 3),
                    name="dep",
                )
                for phase in "st"
            ]
    return Case(
        {"results.json": h.packed(h.json({"traceEvents": events, "otherData": {"CMD": h.text()}}))}, "results.json"
    )


FORMATS: dict[str, Callable[[Hostile], Case]] = {
    "kineto": kineto,
    "execution trace": execution_trace,
    "chrome trace": chrome,
    "jax trace": jax_json,
    "proton trace": proton_trace,
    "rocprofv3": rocprofv3_json,
    "rocprof": rocprof_v1,
}
