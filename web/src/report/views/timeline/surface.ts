// What the timeline is drawn on: a canvas, or an SVG text with the same calls.

export const FONT_SIZE = 11;
export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export interface Surface {
  rect(x: number, y: number, width: number, height: number, fill: string): void;
  outline(x: number, y: number, width: number, height: number, stroke: string): void;
  line(x1: number, y1: number, x2: number, y2: number, stroke: string, width?: number): void;
  /** A curve that leaves and arrives horizontally, with an arrow at its end. */
  arrow(x1: number, y1: number, x2: number, y2: number, stroke: string): void;
  /** A line of text whose middle is at this height. */
  text(x: number, y: number, text: string, fill: string, bold?: boolean): void;
  /** Draws only inside a rectangle. */
  clipped(x: number, y: number, width: number, height: number, draw: () => void): void;
  /** Draws with everything moved. */
  moved(x: number, y: number, draw: () => void): void;
}

const HEAD = 5;

export class CanvasSurface implements Surface {
  private fill = "";

  constructor(private readonly context: CanvasRenderingContext2D) {
    context.font = `${FONT_SIZE}px ${FONT}`;
  }

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.use(fill);
    this.context.fillRect(x, y, width, height);
  }
  outline(x: number, y: number, width: number, height: number, stroke: string): void {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = 2;
    this.context.strokeRect(x, y, width, height);
  }
  line(x1: number, y1: number, x2: number, y2: number, stroke: string, width = 1): void {
    const { context } = this;
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
  }
  arrow(x1: number, y1: number, x2: number, y2: number, stroke: string): void {
    const { context } = this;
    const bend = bendOf(x1, x2);
    context.strokeStyle = stroke;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    context.moveTo(x2 - HEAD, y2 - HEAD);
    context.lineTo(x2, y2);
    context.lineTo(x2 - HEAD, y2 + HEAD);
    context.stroke();
  }
  text(x: number, y: number, text: string, fill: string, bold = false): void {
    this.use(fill);
    if (bold) this.context.font = `bold ${FONT_SIZE}px ${FONT}`;
    this.context.fillText(text, x, y + baseline);
    if (bold) this.context.font = `${FONT_SIZE}px ${FONT}`;
  }
  clipped(x: number, y: number, width: number, height: number, draw: () => void): void {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
    this.fill = "";
  }
  moved(x: number, y: number, draw: () => void): void {
    this.context.save();
    this.context.translate(x, y);
    draw();
    this.context.restore();
    this.fill = "";
  }

  // Setting a colour parses it: thousands of boxes share few colours.
  private use(fill: string): void {
    if (fill !== this.fill) this.context.fillStyle = this.fill = fill;
  }
}

export class SvgSurface implements Surface {
  private readonly parts: string[] = [];
  private clips = 0;

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.parts.push(`<rect x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}" fill="${fill}"/>`);
  }
  outline(x: number, y: number, width: number, height: number, stroke: string): void {
    const box = `x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}"`;
    this.parts.push(`<rect ${box} fill="none" stroke="${stroke}" stroke-width="2"/>`);
  }
  line(x1: number, y1: number, x2: number, y2: number, stroke: string, width = 1): void {
    this.parts.push(`<path d="M${r(x1)} ${r(y1)}L${r(x2)} ${r(y2)}" stroke="${stroke}" stroke-width="${width}"/>`);
  }
  arrow(x1: number, y1: number, x2: number, y2: number, stroke: string): void {
    const bend = bendOf(x1, x2);
    const curve = `M${r(x1)} ${r(y1)}C${r(x1 + bend)} ${r(y1)} ${r(x2 - bend)} ${r(y2)} ${r(x2)} ${r(y2)}`;
    const head = `M${r(x2 - HEAD)} ${r(y2 - HEAD)}L${r(x2)} ${r(y2)}L${r(x2 - HEAD)} ${r(y2 + HEAD)}`;
    this.parts.push(`<path d="${curve}${head}" fill="none" stroke="${stroke}" stroke-width="1.5"/>`);
  }
  text(x: number, y: number, text: string, fill: string, bold = false): void {
    const weight = bold ? ' font-weight="bold"' : "";
    this.parts.push(`<text x="${r(x)}" y="${r(y + baseline)}" fill="${fill}"${weight}>${escaped(text)}</text>`);
  }
  clipped(x: number, y: number, width: number, height: number, draw: () => void): void {
    const id = `clip${++this.clips}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}"/></clipPath>`);
    this.parts.push(`<g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }
  moved(x: number, y: number, draw: () => void): void {
    this.parts.push(`<g transform="translate(${r(x)} ${r(y)})">`);
    draw();
    this.parts.push("</g>");
  }

  document(width: number, height: number, title: string): string {
    const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
    const font = `font-family="${escaped(FONT)}" font-size="${FONT_SIZE}"`;
    const open = `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font}>`;
    return `${open}\n<title>${escaped(title)}</title>\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

const baseline = FONT_SIZE * 0.36;

function bendOf(x1: number, x2: number): number {
  return Math.min(80, Math.max(20, Math.abs(x2 - x1) / 2));
}

/** Coordinates in tenths of a pixel keep a file small. */
function r(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escaped(text: string): string {
  const legal = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "");
  return legal.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}
