/** Figures for people. */

export const dash = "–";

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** `1 death`, `2 deaths`. */
export function plural(value: number, thing: string): string {
  return `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
}

export function share(value: number): string {
  return `${(value * 100).toFixed(1)} %`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, value)) / 10));
  return `${(value / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

export function clock(atMs: number): string {
  return new Date(atMs).toLocaleTimeString("en-GB");
}
