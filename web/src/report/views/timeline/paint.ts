// Draws the lanes. Where many events share a pixel, one rectangle stands for them, shaded by how busy it is and
// coloured by what takes most of it, so that a frame costs as much as it has pixels, not events.
import { SHADES } from "./colouring";
import type { Dominance } from "./dominance";
import { laneTop, rowTop, type Placed } from "./layout";
import { paintCounter } from "./paint_counters";
import type { Picture } from "./picture";
import type { Surface } from "./surface";
import { fitted } from "./text";
import type { Track } from "./track";

const NARROWEST_BOX = 1.5; // pixels; what is narrower is summed by pixel
const NARROWEST_WITH_GAP = 4;
const NARROWEST_WITH_TEXT = 26;

export function paintLanes(surface: Surface, picture: Picture): void {
  const { layout, height, viewport, page } = picture;
  surface.rect(0, 0, viewport.width, height, page.panel);
  paintPart(surface, picture, true, 0, Math.min(height, layout.pinnedHeight));
  surface.clipped(0, layout.pinnedHeight, viewport.width, height - layout.pinnedHeight, () =>
    paintPart(surface, picture, false, layout.pinnedHeight, height),
  );
}

function paintPart(surface: Surface, picture: Picture, pinned: boolean, top: number, bottom: number): void {
  const { layout, scrolled, viewport, page } = picture;
  for (const placed of layout.placed) {
    const y = laneTop(layout, placed, scrolled);
    if (placed.pinned !== pinned || y + placed.height < top || y > bottom) continue;
    paintLane(surface, picture, placed, top, bottom);
    if (!placed.thin) surface.rect(0, y + placed.height - 1, viewport.width, 1, page.line);
  }
  for (const placed of layout.counters) {
    const y = laneTop(layout, placed, scrolled);
    if (placed.pinned !== pinned || y + placed.height < top || y > bottom) continue;
    paintCounter(surface, picture, placed);
    surface.rect(0, y + placed.height - 1, viewport.width, 1, page.line);
  }
}

function paintLane(surface: Surface, picture: Picture, placed: Placed, top: number, bottom: number): void {
  const { lane, open, rowHeight } = placed;
  const hidden = picture.hidden[lane.sceneNumber];
  for (let row = 0; row < placed.rows; row++) {
    const y = rowTop(picture.layout, placed, row, picture.scrolled);
    if (y + rowHeight < top || y > bottom) continue;
    const track = open ? lane.track(row, hidden) : lane.strip(hidden);
    if (track.length) new RowPainter(surface, picture, lane.sceneNumber, track, y, rowHeight - 1).paint(open);
  }
}

class RowPainter {
  private readonly ns: number;
  /** Pixels are counted from time zero, not from the view: they keep their content while the view moves. */
  private readonly base: number;
  private readonly from: number;
  private readonly to: number;
  private readonly codes: Uint16Array;
  private readonly dominance: Dominance;
  private readonly flags: Uint8Array | null;
  private readonly matched: Int32Array | null;
  private readonly labels: number[] = [];
  private runFrom = 0;
  private runTo = 0;
  private runFill = "";

  constructor(
    private readonly surface: Surface,
    private readonly picture: Picture,
    sceneNumber: number,
    private readonly track: Track,
    private readonly y: number,
    private readonly height: number,
  ) {
    const { viewport, colouring, search, origins } = picture;
    this.ns = viewport.nsPerPixel;
    this.from = viewport.from + origins[sceneNumber];
    this.to = viewport.to + origins[sceneNumber];
    this.base = Math.floor(this.from / this.ns);
    this.codes = colouring.codes[sceneNumber];
    this.dominance = track.dominant(this.codes, colouring.count);
    this.flags = search.flags?.[sceneNumber] ?? null;
    this.matched = this.flags && track.matchedBefore(this.flags);
  }

  paint(withTexts: boolean): void {
    const { track, ns } = this;
    let i = track.firstEndingAfter(this.from);
    while (i < track.length && track.starts[i] < this.to) {
      if (this.isWide(i)) {
        this.box(i++);
        continue;
      }
      const column = Math.floor(track.starts[i] / ns);
      let next = Math.max(i + 1, track.firstFrom((column + 1) * ns, i));
      if (next - i > 1 && this.isWide(next - 1)) next--;
      this.column(i, next, column);
      if (track.latest[next - 1] > (column + 1 + NARROWEST_BOX) * ns) this.tangled(i, next);
      i = next;
    }
    this.flush();
    if (withTexts) for (const position of this.labels) this.text(position);
  }

  private isWide(position: number): boolean {
    return this.track.ends[position] - this.track.starts[position] >= NARROWEST_BOX * this.ns;
  }

  private column(first: number, end: number, column: number): void {
    const { covered } = this.track;
    const busy = (covered[end] - covered[first]) / this.ns;
    const shade = Math.min(SHADES - 1, Math.max(0, Math.ceil(busy * SHADES) - 1));
    this.run(column - this.base, this.fillOf(first, end, shade));
  }

  private fillOf(first: number, end: number, shade: number): string {
    const { shades, dimmed } = this.picture.colouring;
    const { matched } = this;
    if (!matched) return shades[this.dominance.of(first, end)][shade];
    if (matched[end] === matched[first]) return dimmed[this.dominance.of(first, end)];
    let position = first;
    while (matched[position + 1] === matched[first]) position++;
    return shades[this.codeOf(position)][SHADES - 1];
  }

  /** Neighbouring pixels that look the same become one rectangle. */
  private run(x: number, fill: string): void {
    if (x === this.runTo && fill === this.runFill) {
      this.runTo = x + 1;
      return;
    }
    this.flush();
    [this.runFrom, this.runTo, this.runFill] = [x, x + 1, fill];
  }
  private flush(): void {
    if (this.runFill) this.surface.rect(this.runFrom, this.y, this.runTo - this.runFrom, this.height, this.runFill);
    this.runFill = "";
  }

  /** Long events that begin among short ones: only where a recorder tangled them. */
  private tangled(first: number, end: number): void {
    for (let i = first; i < end; i++) if (this.isWide(i)) this.box(i);
  }

  private box(position: number): void {
    const [left, right] = this.edges(position);
    const { shades, dimmed } = this.picture.colouring;
    const code = this.codeOf(position);
    const fill = this.isDimmed(position) ? dimmed[code] : shades[code][SHADES - 1];
    if (right - left < NARROWEST_WITH_GAP) {
      if (right - left === 1) return this.run(left, fill);
      return this.surface.rect(left, this.y, right - left, this.height, fill);
    }
    this.surface.rect(left, this.y, right - left - 1, this.height, fill);
    if (right - left >= NARROWEST_WITH_TEXT) this.labels.push(position);
  }

  private edges(position: number): [number, number] {
    const left = Math.round(this.track.starts[position] / this.ns) - this.base;
    const right = Math.round(this.track.ends[position] / this.ns) - this.base;
    return [Math.max(-2, left), Math.min(this.picture.viewport.width + 2, Math.max(left + 1, right))];
  }

  private text(position: number): void {
    const [left, right] = this.edges(position);
    const from = Math.max(0, left) + 3;
    const text = fitted(this.track.scene.short(this.track.rows[position]), right - from - 3);
    if (!text) return;
    const { inks, dimmedInk } = this.picture.colouring;
    this.surface.text(from, this.y + this.height / 2, text, this.isDimmed(position) ? dimmedInk : inks[this.codeOf(position)]);
  }

  private codeOf(position: number): number {
    return this.codes[this.track.scene.data.label[this.track.rows[position]]];
  }
  private isDimmed(position: number): boolean {
    return this.flags !== null && !this.flags[this.track.rows[position]];
  }
}
