import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatDuration, formatSize, parseDurationMs, parseSizeBytes } from "../src/index.ts";

describe("durations", () => {
  it.each([
    ["0ms", 0],
    ["250ms", 250],
    ["1.5s", 1_500],
    ["5s", 5_000],
    ["2m", 120_000],
    ["1h", 3_600_000],
    ["2d", 172_800_000],
  ])("reads %s as %d ms", (text, ms) => {
    expect(parseDurationMs(text)).toBe(ms);
  });

  it.each(["", "5", "s", "-5s", "5 s", "5sec", "1e3ms", ".5s", "5S", "5s ", "NaNs", "Infinitys", "1.s"])(
    'refuses "%s" and shows how to write it',
    (text) => {
      expect(() => parseDurationMs(text)).toThrow(
        expect.objectContaining({ code: "MUSTER_ERR_DURATION_INVALID", message: expect.stringContaining('"250ms"') }),
      );
    },
  );

  it.each([
    [0, "0.0 s"],
    [420, "0.4 s"],
    [9_999, "10.0 s"],
    [10_000, "10 s"],
    [59_400, "59 s"],
    [59_600, "1 min 00 s"],
    [200_000, "3 min 20 s"],
    [7_500_000, "2 h 05 min"],
  ])("writes %d ms as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe("sizes", () => {
  it.each([
    ["0B", 0],
    ["17B", 17],
    ["512KiB", 524_288],
    ["64MiB", 67_108_864],
    ["3GiB", 3_221_225_472],
    ["1TiB", 1_099_511_627_776],
  ])("reads %s as %d bytes", (text, bytes) => {
    expect(parseSizeBytes(text)).toBe(bytes);
  });

  it.each(["", "5", "KiB", "-1KiB", "1.5GiB", "5KB", "5kib", "5 KiB"])('refuses "%s"', (text) => {
    expect(() => parseSizeBytes(text)).toThrow(expect.objectContaining({ code: "MUSTER_ERR_SIZE_INVALID" }));
  });

  it.each([
    [0, "0 B"],
    [1_023, "1023 B"],
    [1_024, "1.0 KiB"],
    [348_160, "340 KiB"],
    [1_395_864_371, "1.3 GiB"],
  ])("writes %d bytes as %s", (bytes, text) => {
    expect(formatSize(bytes)).toBe(text);
  });

  it("writes a whole number of a unit so that it reads back within its rounding", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 99 }), fc.constantFrom("KiB", "MiB", "GiB"), (count, unit) => {
        const bytes = parseSizeBytes(`${count}${unit}`);
        expect(formatSize(bytes)).toBe(`${count}.0 ${unit}`);
      }),
    );
  });
});
