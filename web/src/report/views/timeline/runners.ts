// Frames that only start a program or belong to the profiler: between them and the reader's own code nothing is lost.

const RUNNERS = [
  /^(<frozen )?runpy(\.py|>)\(\d+\): /,
  /^(\S*\/)?threading\.py\(\d+\): (_bootstrap|_bootstrap_inner|run)$/,
  /^(\S*\/)?concurrent\/futures\/thread\.py\(\d+\): /,
  /^(\S*\/)?multiprocessing\/(spawn|process|popen_\w+|context|forkserver)\.py\(\d+\): /,
  /^(\S*\/)?torch\/(profiler|autograd)\/(profiler\w*|_memory_profiler|itt)\.py\(\d+\): /,
  /^(\S*\/)?torch\/distributed\/(run|launch|launcher\/\w+|elastic\/\S+)\.py\(\d+\): /,
  /^(\S*\/)?(bin\/)?torchrun\(\d+\): /,
  /^(\S*\/)?warplens\/(capture|cli)\/\S+\.py\(\d+\): /,
  /^(<built-in method exec|<built-in function exec>|<frozen importlib)/,
];

export function isRunner(name: string): boolean {
  return RUNNERS.some((pattern) => pattern.test(name));
}

/** A path in runs of frames that are all of runners, or none of them. */
export function runsOf<T>(path: readonly T[], nameOf: (frame: T) => string): { runner: boolean; frames: T[] }[] {
  const runs: { runner: boolean; frames: T[] }[] = [];
  for (const frame of path) {
    const runner = isRunner(nameOf(frame));
    const last = runs[runs.length - 1];
    if (last?.runner === runner) last.frames.push(frame);
    else runs.push({ runner, frames: [frame] });
  }
  return runs;
}

/** How many of the outermost levels of a thread hold frames of runners and nothing else, the last of them not counted. */
export function runnerLevels(depths: ArrayLike<number>, runs: (at: number) => boolean): number {
  const hasRunners: boolean[] = [];
  // The user's own code begins near the top: from its level on nothing has to be looked at, which is nearly everything.
  let own = Infinity;
  for (let at = 0; at < depths.length; at++) {
    if (depths[at] >= own) continue;
    if (runs(at)) hasRunners[depths[at]] = true;
    else own = depths[at];
  }
  let levels = 0;
  while (levels < own && hasRunners[levels]) levels++;
  return Math.max(0, levels - 1);
}
