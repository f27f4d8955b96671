// The pipeline of one step: a row per stage with the computation of each microbatch, and below it what it received and sent.
import type { App, View } from "../../app";
import type { Changed } from "../../state";
import { h, replace } from "../../../shared/dom";
import { ink, isDark, lightened } from "../../../shared/colours";
import { formatNs, formatPercent } from "../../../shared/format";
import { Tip } from "../../../shared/tip";
import type { Job, JobRank } from "../../data/job";
import { pageColours } from "../timeline/page-colours";
import { sharpCanvas } from "../timeline/sharp";
import { CanvasSurface } from "../timeline/surface";
import { fitted, textWidth } from "../timeline/text";
import { callWords } from "./details";
import { legendKeys, type Key } from "./legend";
import { blocksOf, doneAt, messagesOf, stageRanks, type Block, type Message } from "./microbatches";
import { jobColours } from "./paint";

const ROW = { height: 46, compute: 22, gap: 3, messages: 12 };
const GUTTER = 112;
const AXIS = 22;
const TICKS = 8;
const TICK_WIDTH = 96; // the last label ends at the edge, so that it takes more than its own width
const COLOURS: Record<Block["direction"], string> = { forward: "#0072B2", backward: "#009E73", both: "#56B4E9", "": "#8a94a3" };
const KEYS: [Block["direction"], string][] = [
  ["forward", "F: forward"],
  ["backward", "B: backward"],
  ["both", "both, one after the other"],
  ["", "microbatch not known"],
];

interface Row {
  rank: JobRank;
  blocks: Block[];
  messages: Message[];
}

export function hasPipeline({ job }: App): boolean {
  return Boolean(job && stageRanks(job).length);
}

export function mountPipeline(host: HTMLElement, app: App): View {
  return new Pipeline(host, app, app.job!);
}

class Pipeline implements View {
  private readonly canvas = h("canvas");
  private readonly stage = h("div", { class: "job-pipeline", attrs: { role: "img" } }, this.canvas);
  private readonly title = h("b");
  private readonly keys = h("div", { class: "tl-legend" });
  private readonly tip = new Tip();
  private readonly ranks: JobRank[];
  private readonly steps: number[];
  private rows: Row[] = [];
  private span: [number, number] = [0, 1];
  private width = 0;

  constructor(
    host: HTMLElement,
    private readonly app: App,
    private readonly job: Job,
  ) {
    this.ranks = stageRanks(job);
    this.steps = this.ranks[0].steps.map(({ step }) => step).filter((step) => messagesOf(job, this.ranks[0], step).length);
    if (!this.steps.length) {
      host.append(h("p", { class: "empty", text: "The messages between the stages are in no marked step, so there is no step to draw." }));
      return;
    }
    const go = (by: number) => (): void => this.go(by);
    const controls = h(
      "span",
      { class: "tl-group" },
      h("button", { text: "‹", attrs: { "aria-label": "Previous step" }, on: { click: go(-1) } }),
      this.title,
      h("button", { text: "›", attrs: { "aria-label": "Next step" }, on: { click: go(1) } }),
      h("button", { text: "As a table", on: { click: () => app.go({ to: "table", table: "pipeline" }) } }),
    );
    host.append(h("div", { class: "job-controls" }, this.keys, controls), this.stage);
    this.listen();
    new ResizeObserver(() => this.stage.clientWidth !== this.width && this.draw()).observe(this.stage);
    this.load();
  }

  update(changed: Changed): void {
    if (!this.steps.length) return;
    if (changed.has("pipestep")) this.load();
    else if (changed.has("theme")) this.draw();
  }

  /** The chosen step, or the middle one: the first are often slow. */
  private get step(): number {
    const chosen = this.app.store.get("pipestep");
    return chosen !== null && this.steps.includes(chosen) ? chosen : this.steps[this.steps.length >> 1];
  }
  private go(by: number): void {
    const at = this.steps.indexOf(this.step) + by;
    if (at >= 0 && at < this.steps.length) this.app.store.set({ pipestep: this.steps[at] });
  }

  private load(): void {
    const marks = this.ranks.flatMap(({ steps }) => steps.filter(({ step }) => step === this.step));
    const [from, to] = [Math.min(...marks.map((mark) => mark.from)), Math.max(...marks.map((mark) => mark.to))];
    this.rows = this.ranks.map((rank) => {
      const messages = messagesOf(this.job, rank, this.step);
      return { rank, messages, blocks: blocksOf(rank, messages, from, to, doneAt(this.job, rank, this.step, messages)) };
    });
    this.span = [from, to];
    replace(this.title, `step ${this.step}, ${formatNs(to - from)}`);
    this.stage.setAttribute("aria-label", this.spoken());
    this.draw();
  }

  /** Only what this step has: few pipelines have every kind of block. */
  private legend(): Key[] {
    const { wait, transfer, unknown } = jobColours(pageColours(), this.app.palette, isDark());
    const directions = new Set(this.rows.flatMap(({ blocks }) => blocks.map(({ direction }) => direction)));
    const keys = KEYS.filter(([direction]) => directions.has(direction)).map(([direction, text]): Key => [blockColour(direction), text]);
    keys.push([wait, "send or receive: waiting"], [transfer, "transfer"]);
    if (this.rows.some(({ messages }) => messages.some(({ call }) => this.job.data.wait[call] < 0))) keys.push([unknown, "not matched"]);
    return keys;
  }

  private spoken(): string {
    const stages = this.rows.map(({ rank, blocks }) => {
      const busy = blocks.reduce((sum, { from, to }) => sum + to - from, 0);
      return `stage ${rank.stage} computes ${formatPercent((100 * busy) / (this.span[1] - this.span[0]))}`;
    });
    return `Pipeline of step ${this.step}: ${stages.join(", ")}. The button “As a table” has the numbers.`;
  }

  private x(time: number): number {
    const [from, to] = this.span;
    return GUTTER + ((time - from) / (to - from)) * (this.width - GUTTER - 4);
  }

  private draw(): void {
    this.width = this.stage.clientWidth;
    if (!this.width) return;
    const height = this.rows.length * ROW.height + AXIS;
    const surface = new CanvasSurface(sharpCanvas(this.canvas, this.width, height));
    const page = pageColours();
    surface.rect(0, 0, this.width, height, page.background);
    replace(this.keys, ...legendKeys(this.legend()));
    this.rows.forEach((row, at) => this.paintRow(surface, row, at * ROW.height));
    const bottom = this.rows.length * ROW.height;
    surface.rect(GUTTER, bottom, this.width - GUTTER, 1, page.line);
    const [from, to] = this.span;
    const ticks = Math.max(1, Math.min(TICKS, Math.floor((this.width - GUTTER) / TICK_WIDTH)));
    for (let tick = 0; tick <= ticks; tick++) {
      const text = formatNs(((to - from) * tick) / ticks);
      const x = this.x(from + ((to - from) * tick) / ticks);
      surface.text(Math.min(x, this.width - textWidth(text) - 2), bottom + 11, tick ? text : "0", page.quiet);
    }
  }

  private paintRow(surface: CanvasSurface, { rank, blocks, messages }: Row, top: number): void {
    const page = pageColours();
    const colours = jobColours(page, this.app.palette, isDark());
    surface.text(0, top + 14, `stage ${rank.stage}`, page.text, true);
    surface.text(0, top + 30, `rank ${rank.rank}`, page.quiet);
    surface.rect(GUTTER, top, this.width - GUTTER, 1, page.line);
    const widest = widestOf(blocks);
    for (const block of blocks) {
      const { from, to, label, direction } = block;
      const [left, right] = [this.x(from), this.x(to)];
      const fill = blockColour(direction);
      surface.rect(left, top + ROW.gap, Math.max(1, right - left - (right - left > 3 ? 0.5 : 0)), ROW.compute, fill);
      const text = widest.has(block) && right - left > 12 ? fitted(label, right - left - 2) : "";
      if (text) surface.text((left + right - textWidth(text)) / 2, top + ROW.gap + ROW.compute / 2, text, ink(fill));
    }
    for (const { call, from, to } of messages) {
      const middle = this.x(from + this.job.wait(call));
      const [left, right, y] = [this.x(from), this.x(to), top + 2 * ROW.gap + ROW.compute];
      surface.rect(left, y, Math.max(1, right - left), ROW.messages, this.job.data.wait[call] < 0 ? colours.unknown : colours.transfer);
      if (middle > left) surface.rect(left, y, middle - left, ROW.messages, colours.wait);
    }
  }

  private listen(): void {
    const { stage, tip } = this;
    stage.addEventListener("pointermove", (event) => {
      const [block, message, row] = this.at(event);
      if (message) tip.show(...callWords(this.job, message.call), event.clientX, event.clientY);
      else if (block && row) {
        const name = block.label ? `microbatch ${block.label}` : "computation";
        tip.show(`stage ${row.rank.stage}: ${name}`, [formatNs(block.to - block.from)], [], event.clientX, event.clientY);
      } else tip.hide();
      stage.style.cursor = message || block ? "pointer" : "";
    });
    stage.addEventListener("pointerleave", () => tip.hide());
    stage.addEventListener("click", (event) => {
      const [block, message, row] = this.at(event);
      if (message && this.job.data.match[message.call] >= 0) this.app.go({ to: "collective", match: this.job.data.match[message.call] });
      else if (block && row) this.app.go({ to: "rank", rank: row.rank.rank, from: block.from, until: block.to });
    });
  }

  private at(event: MouseEvent): [Block | undefined, Message | undefined, Row | undefined] {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const row = this.rows[Math.floor(y / ROW.height)];
    const inside = ({ from, to }: { from: number; to: number }): boolean => x >= this.x(from) - 1 && x <= this.x(to) + 1;
    const isMessage = y % ROW.height > 2 * ROW.gap + ROW.compute;
    return [isMessage ? undefined : row?.blocks.find(inside), isMessage ? row?.messages.find(inside) : undefined, row];
  }
}

function blockColour(direction: Block["direction"]): string {
  return isDark() ? lightened(COLOURS[direction]) : COLOURS[direction];
}

/** Of the blocks of one microbatch the longest, which has its name. */
function widestOf(blocks: Block[]): Set<Block> {
  const best = new Map<string, Block>();
  for (const block of blocks) {
    const other = best.get(block.label);
    if (!other || block.to - block.from > other.to - other.from) best.set(block.label, block);
  }
  return new Set(best.values());
}
