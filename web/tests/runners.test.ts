import { expect, test } from "vitest";
import { isRunner, runnerLevels, runsOf } from "../src/report/views/timeline/runners";

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

test("of the levels that only start a program one is left, and none of the user's own is folded", () => {
  const thread: [depth: number, name: string][] = [
    [0, "<frozen runpy>(1): a"],
    [1, "runpy.py(2): b"],
    [2, "warplens/cli/profile.py(3): run"],
    [3, "train.py(4): main"],
    [4, "torch/profiler/profiler.py(5): step"],
  ];
  const levels = (events: typeof thread): number =>
    runnerLevels(
      events.map(([depth]) => depth),
      (at) => isRunner(events[at][1]),
    );
  expect(levels(thread)).toBe(2);
  expect(levels([...thread, [1, "train.py(9): at the end"]])).toBe(0);
  expect(levels(thread.slice(3))).toBe(0);
  expect(levels([])).toBe(0);
});
