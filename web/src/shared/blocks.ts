// Reads what outputs/html/pack.py wrote: base64 → gzip → a header (JSON) and columns of numbers.

import type { ColumnSpec } from "./generated/records";

const FORMAT = "warplens-page";
const VERSION = 1;
const DIGITS = 8;

export interface Unpacked {
  header: unknown;
  bytes: Uint8Array;
}

export async function unpack(base64: string): Promise<Unpacked> {
  const whole = await inflate(fromBase64(base64));
  const length = Number(ascii(whole.subarray(0, DIGITS)));
  const text = new TextDecoder().decode(whole.subarray(DIGITS, DIGITS + length));
  const header = JSON.parse(text) as { format: string; version: number };
  if (header.format !== FORMAT || header.version !== VERSION) {
    throw new Error(`this page reads ${FORMAT} ${VERSION}, the data is ${header.format} ${header.version}`);
  }
  return { header, bytes: whole.subarray(DIGITS + length) };
}

async function inflate(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const gzip = new DecompressionStream("gzip");
  const writer = gzip.writable.getWriter();
  // Not awaited: damage is reported by what is read.
  writer.write(packed).catch(() => undefined);
  writer.close().catch(() => undefined);
  return new Uint8Array(await new Response(gzip.readable).arrayBuffer());
}

/** Browsers since 2025 do this themselves, fifty times as fast. */
const native = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  if (native.fromBase64) return native.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

function ascii(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

/** A column of integers that fit 32 bits. */
export function readInts(spec: ColumnSpec, bytes: Uint8Array): Int32Array {
  const values = new Int32Array(spec.rows);
  addPlanes(values, planesOf(spec, bytes));
  let last = 0;
  for (let row = 0; row < values.length; row++) {
    const value = (values[row] >>> 1) ^ -(values[row] & 1);
    values[row] = last = spec.delta ? last + value : value;
  }
  return values;
}

/** A column of numbers of any size: times in ns, decimals; NaN where there is none. */
export function readNumbers(spec: ColumnSpec, bytes: Uint8Array): Float64Array {
  if (spec.float) return readDoubles(spec, bytes);
  const planes = planesOf(spec, bytes);
  const values = new Float64Array(spec.rows);
  const low = new Int32Array(spec.rows);
  addPlanes(low, planes.slice(0, PLANES));
  // Up to 53 bits: beyond 32 the shifts of JavaScript no longer hold, so multiply.
  const high = planes.length > PLANES ? new Int32Array(spec.rows) : null;
  if (high) addPlanes(high, planes.slice(PLANES));
  const scale = spec.scale ?? 1;
  let last = 0;
  for (let row = 0; row < values.length; row++) {
    const half = (low[row] >>> 1) + (high ? high[row] * HALF : 0);
    const value = low[row] & 1 ? -half - 1 : half;
    last = spec.delta ? last + value : value;
    values[row] = scale === 1 ? last : last / scale;
  }
  if (spec.nulls) for (const row of readInts(spec.nulls, bytes)) values[row] = NaN;
  return values;
}

const PLANES = 4; // bytes that the bit operations of JavaScript take
const HALF = 2 ** 31;

/** Byte planes, the lowest first, as one number per row. */
function addPlanes(values: Int32Array, planes: Uint8Array[]): void {
  planes.forEach((plane, place) => addPlane(values, plane, 8 * place));
}

function addPlane(values: Int32Array, plane: Uint8Array, shift: number): void {
  for (let row = 0; row < values.length; row++) values[row] |= plane[row] << shift;
}

function readDoubles(spec: ColumnSpec, bytes: Uint8Array): Float64Array {
  const planes = planesOf({ ...spec, width: 8 }, bytes);
  const raw = new Uint8Array(8 * spec.rows);
  for (let plane = 0; plane < 8; plane++) {
    const source = planes[plane];
    for (let row = 0; row < spec.rows; row++) raw[8 * row + plane] = source[row];
  }
  return new Float64Array(raw.buffer);
}

function planesOf(spec: ColumnSpec, bytes: Uint8Array): Uint8Array[] {
  return Array.from({ length: spec.width }, (_, plane) => bytes.subarray(spec.at + plane * spec.rows, spec.at + (plane + 1) * spec.rows));
}
