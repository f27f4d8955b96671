import { expect, test } from "vitest";
import { isRunner, runsOf } from "../src/report/views/timeline/runners";

test("frames that start programs or belong to the profiler are runners, the user's own are not", () => {
  const runners = [
    "<frozen runpy>(198): _run_module_as_main",
    "runpy.py(86): _run_code",
    "/usr/lib/python3.12/threading.py(1073): _bootstrap_inner",
    "torch/profiler/profiler.py(862): __enter__",
    "torch/autograd/profiler.py(854): __enter__",
    "torch/distributed/run.py(883): main",
    "multiprocessing/spawn.py(122): spawn_main",
  ];
  const own = [
    "train.py(12): <module>",
    "my/profiler.py(3): step",
    "torch/nn/modules/module.py(1783): _call_impl",
    "threading_tools.py(1): run",
  ];
  expect(runners.filter((name) => !isRunner(name))).toEqual([]);
  expect(own.filter(isRunner)).toEqual([]);
});

test("a path is split where runners begin and end", () => {
  const path = ["runpy.py(1): a", "runpy.py(2): b", "train.py(3): main", "torch/profiler/profiler.py(4): step"];
  expect(runsOf(path, (name) => name).map(({ runner, frames }) => [runner, frames.length])).toEqual([
    [true, 2],
    [false, 1],
    [true, 1],
  ]);
});
