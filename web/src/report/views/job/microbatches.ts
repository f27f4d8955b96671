// What each stage of a pipeline did in a step: computation by microbatch, between receives and sends.
import type { Job, JobRank } from "../../data/job";
import { clip } from "../../data/intervals";

const [SEND, RECEIVE] = ["send", "recv"];
const BETWEEN_STAGES = [SEND, RECEIVE, "send_recv"];

export type Direction = "forward" | "backward" | "";

export interface Message {
  call: number;
  kind: string;
  direction: Direction;
  /** The how manyth of its kind and direction in the step: the microbatch. */
  number: number;
  from: number;
  to: number;
}

export interface Block {
  from: number;
  to: number;
  /** "F2", "B0 F3"; empty where no message tells. */
  label: string;
  direction: Direction | "both";
}

/** The ranks that stand for the stages: of each the first that passes on to the one of the stage before. */
export function stageRanks(job: Job): JobRank[] {
  const byStage = new Map<number, JobRank[]>();
  for (const rank of job.ranks) if (rank.stage >= 0) byStage.set(rank.stage, [...(byStage.get(rank.stage) ?? []), rank]);
  const chain: JobRank[] = [];
  for (const stage of [...byStage.keys()].sort((a, b) => a - b)) {
    const before = chain[chain.length - 1];
    const ranks = byStage.get(stage)!;
    const peers = before ? new Set(job.data.peer.subarray(before.first, before.last)) : null;
    chain.push(ranks.find(({ rank }) => peers?.has(rank)) ?? ranks[0]);
  }
  return chain.length > 1 ? chain : [];
}

/** The messages between stages of a rank in a step, by their starts. */
export function messagesOf(job: Job, rank: JobRank, step: number): Message[] {
  const counts = new Map<string, number>();
  const messages: Message[] = [];
  for (let call = rank.first; call < rank.last; call++) {
    const kind = job.kind(call);
    if (job.data.step[call] !== step || !BETWEEN_STAGES.includes(kind)) continue;
    const direction = directionOf(kind, rank.stage, job.rank(job.data.peer[call])?.stage);
    const key = `${kind} ${direction}`;
    const number = counts.get(key) ?? 0;
    counts.set(key, number + 1);
    messages.push({ call, kind, direction, number, from: job.data.start[call], to: job.end(call) });
  }
  return messages;
}

function directionOf(kind: string, own: number, other: number | undefined): Direction {
  if (other === undefined || other < 0 || other === own || (kind !== SEND && kind !== RECEIVE)) return "";
  return (kind === RECEIVE) === other < own ? "forward" : "backward";
}

/** When the rank's microbatches are done: with the last collective after all messages that none of them used. */
export function doneAt(job: Job, rank: JobRank, step: number, messages: Message[]): number {
  const last = Math.max(-Infinity, ...messages.map(({ to }) => to));
  const used = new Set<string>();
  let done = Infinity;
  for (let call = rank.first; call < rank.last; call++) {
    if (job.data.step[call] !== step || BETWEEN_STAGES.includes(job.kind(call))) continue;
    const key = `${job.kind(call)} ${job.group(call)}`;
    if (job.data.start[call] < last) used.add(key);
    else if (!used.has(key)) done = job.end(call);
  }
  return done;
}

/** The computation between two moments, cut where messages arrive and leave, and named by them up to `done`. */
export function blocksOf({ compute }: Pick<JobRank, "compute">, messages: Message[], from: number, to: number, done = Infinity): Block[] {
  const events: { message: Message | null; at: number }[] = messages.map((message) => ({
    message,
    at: message.kind === SEND ? message.from : message.to,
  }));
  events.push({ message: null, at: done });
  const inOrder = events.filter(({ at }) => at > from && at < to).sort((a, b) => a.at - b.at);
  const edges = [from, ...inOrder.map(({ at }) => at), to];
  return edges.slice(1).flatMap((until, at) => {
    const inside = clip(compute, edges[at], until);
    const before = inOrder[at - 1]?.message;
    const after = inOrder[at]?.message;
    const named = [before?.kind === RECEIVE ? before : undefined, after?.kind === SEND ? after : undefined];
    const labels = [...new Set(named.flatMap((message) => (message?.direction ? [labelOf(message)] : [])))];
    const direction = directionOfLabels(labels);
    return Array.from(inside.starts, (start, piece): Block => ({
      from: start,
      to: inside.ends[piece],
      label: labels.join(" "),
      direction,
    }));
  });
}

export function labelOf({ direction, number }: Message): string {
  return `${direction === "forward" ? "F" : "B"}${number}`;
}

function directionOfLabels(labels: string[]): Block["direction"] {
  const [forward, backward] = ["F", "B"].map((letter) => labels.some((label) => label.startsWith(letter)));
  return forward && backward ? "both" : forward ? "forward" : backward ? "backward" : "";
}
