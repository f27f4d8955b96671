import { expect, test } from "vitest";
import {
  formatBytes,
  formatCount,
  formatFlop,
  formatMoment,
  formatMs,
  formatNs,
  formatNumber,
  formatPercent,
  formatPlural,
  significant,
} from "../src/shared/format";

test("times choose the unit in which they have digits before the point", () => {
  expect([0, 999, 1000, 1_234_567, 2e9].map(formatNs)).toEqual(["0 ns", "999 ns", "1.00 µs", "1.23 ms", "2.00 s"]);
  expect(formatNs(-1500)).toBe("-1.50 µs");
  expect(formatMs(0.5)).toBe("500 µs");
});

test("numbers have three significant digits, thousands stay whole", () => {
  expect([1.234, 12.34, 123.4, 12345].map(significant)).toEqual(["1.23", "12.3", "123", "12,345"]);
});

test("percentages have a decimal below ten", () => {
  expect([0, 0.04, 9.94, 9.95, 55.5].map(formatPercent)).toEqual(["0 %", "0.0 %", "9.9 %", "10 %", "56 %"]);
});

test("bytes count in powers of 1024, FLOP in powers of 1000", () => {
  expect([0, 1023, 1024, 5 * 1024 ** 3].map(formatBytes)).toEqual(["0 B", "1023 B", "1.00 KiB", "5.00 GiB"]);
  expect(formatFlop(2e12)).toBe("2.00 TFLOP");
});

test("a noun agrees with its count", () => {
  expect([0, 1, 2345].map((count) => formatPlural(count, "event"))).toEqual(["0 events", "1 event", "2,345 events"]);
  expect(formatCount(1e6)).toBe("1,000,000");
});

test("a moment has as many decimals as the span needs", () => {
  expect(formatMoment(1_234_567, 1e9)).toBe("1 ms");
  expect(formatMoment(1_234_567, 1e4)).toBe("1.235 ms");
});

test("a cell's decimals follow its unit and size", () => {
  expect(formatNumber(12345, "us")).toBe("12,345");
  expect(formatNumber(12.3456, "%")).toBe("12.35");
  expect(formatNumber(-0.004, "%")).toBe("0.00");
  expect(formatNumber(0.00012345, "ms")).toBe("0.000123");
});
