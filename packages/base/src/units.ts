/** Durations and sizes as people write them: `"5s"`, `"250ms"`, `"2h"`, `"512KiB"`. Inside the code they are `…Ms` and `…Bytes` numbers. */
import { defineErrors } from "./errors.ts";

const errors = defineErrors("MUSTER_ERR", {
  DurationInvalid: { message: '"{value}" is not a duration; write for example "250ms", "5s", "2m" or "1h"' },
  SizeInvalid: { message: '"{value}" is not a size; write for example "512KiB", "64MiB" or "1GiB"' },
});

const durationMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const sizeBytes = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4 } as const;

/** Parses a duration. @returns Milliseconds, ≥ 0. @throws MUSTER_ERR_DURATION_INVALID */
export function parseDurationMs(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text);
  if (!match) throw errors.DurationInvalid({ value: text });
  return Number(match[1]) * durationMs[match[2] as keyof typeof durationMs];
}

/** Parses a size. @returns Bytes, a whole number ≥ 0. @throws MUSTER_ERR_SIZE_INVALID */
export function parseSizeBytes(text: string): number {
  const match = /^(\d+)(B|KiB|MiB|GiB|TiB)$/.exec(text);
  if (!match) throw errors.SizeInvalid({ value: text });
  return Number(match[1]) * sizeBytes[match[2] as keyof typeof sizeBytes];
}

/** Writes a duration for people: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`. */
export function formatDuration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** Writes a size for people: `340 KiB`, `1.3 GiB`. */
export function formatSize(bytes: number): string {
  const unit = (["TiB", "GiB", "MiB", "KiB"] as const).find((name) => bytes >= sizeBytes[name]) ?? "B";
  const value = bytes / sizeBytes[unit];
  return `${unit === "B" || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}
