/** What a measurement says, as data and as text. Pure. */
import { medianOf } from "@muster/base";

/** Ours against something else that was measured in the same run, in turns. */
export interface Comparison {
  /** What it is compared with. */
  readonly with: string;
  /** Median of what that took. */
  readonly seconds: number;
  /** Median of the pairs' ratios `other / ours`: how many times as fast ours is. */
  readonly speed: number;
  /** Half of the distance between the quartiles of the ratios, as a share of their median. */
  readonly spread: number;
  /** Lowest speed that is good; `null` for none. */
  readonly target: number | null;
}

/** One thing that was measured. */
export interface BenchRow {
  readonly name: string;
  /** Processes that took part. */
  readonly world: number;
  /** Bytes that each receiver gets. */
  readonly bytes: number;
  /** Median of the rounds. */
  readonly seconds: number;
  /** CPU seconds of all members together for each GiB that was delivered; `null` when not measured. */
  readonly cpuSecondsPerGib: number | null;
  readonly rounds: number;
  readonly comparisons: readonly Comparison[];
}

/** Where and under which load it was measured. */
export interface BenchMachine {
  readonly model: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly kernel: string;
  /** Load average of one minute, before and after. */
  readonly load: readonly [before: number, after: number];
}

/** A whole measurement. */
export interface BenchReport {
  readonly command: string;
  readonly machine: BenchMachine;
  readonly rows: readonly BenchRow[];
  /** What is missing, and how to get it. */
  readonly notes: readonly string[];
  /** Why it ended early; `null` when everything was measured. */
  readonly failure: string | null;
}

/** A figure for other programs, as `npm run bench -- --json` gives them. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** The least that is good; `null` for none. */
  readonly aim: number | null;
  readonly met: boolean | null;
}

/** The last line of `--json`: a report's figures, and all of it. Pure. */
export function reportLine(report: BenchReport): string {
  const rows: Figure[] = report.rows.flatMap(({ name, world, bytes, seconds, comparisons }) => {
    const what = `${name}, W=${world}, ${bytes} bytes`;
    return [
      { name: what, value: seconds, unit: "s", aim: null, met: null },
      ...comparisons.map(({ with: other, speed, target: aim }) => ({
        ...{ name: `${what}, beside ${other}`, value: speed, unit: "times as fast", aim },
        met: aim === null ? null : speed >= aim,
      })),
    ];
  });
  return JSON.stringify({ bench: report.command, rows, report });
}

/** Rounds of ours and of what it is compared with; `null` where a round did not come about. */
export interface Rounds {
  readonly name: string;
  readonly world: number;
  readonly bytes: number;
  readonly seconds: readonly number[];
  readonly cpuSeconds: readonly number[] | null;
  /** Bytes that all receivers got together in one round. */
  readonly delivered: number;
  readonly others: readonly {
    readonly with: string;
    readonly seconds: readonly (number | null)[];
    readonly target: number | null;
  }[];
}

const gib = 2 ** 30;

/** Medians and ratios of rounds. Others without a single round are left out. */
export function rowOf({ name, world, bytes, seconds, cpuSeconds, delivered, others }: Rounds): BenchRow {
  return {
    name,
    world,
    bytes,
    seconds: medianOf(seconds),
    cpuSecondsPerGib: cpuSeconds ? medianOf(cpuSeconds) / (delivered / gib) : null,
    rounds: seconds.length,
    comparisons: others.flatMap((other) => {
      const pairs = seconds.flatMap((ours, i) => {
        const theirs = other.seconds[i];
        return typeof theirs === "number" ? [{ theirs, ratio: theirs / ours }] : [];
      });
      if (pairs.length === 0) return [];
      const ratios = pairs.map(({ ratio }) => ratio);
      return [
        {
          with: other.with,
          seconds: medianOf(pairs.map(({ theirs }) => theirs)),
          speed: medianOf(ratios),
          spread: spreadOf(ratios),
          target: other.target,
        },
      ];
    }),
  };
}

function spreadOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.round(share * (sorted.length - 1))] ?? Number.NaN;
  return (at(0.75) - at(0.25)) / 2 / medianOf(sorted);
}

/** Writes the report for a person. */
export function reportText({ command, machine, rows, notes, failure }: BenchReport): string {
  const [before, after] = machine.load.map((load) => load.toFixed(1));
  const where = `${machine.cores} cores (${machine.model}), Linux ${machine.kernel}, load ${before} before and ${after} after`;
  return [
    `muster bench ${command} on ${where}`,
    ...rows.map(rowText),
    ...notes.map((note) => `note: ${note}`),
    ...(failure ? [`ended early: ${failure}`] : []),
  ].join("\n");
}

/** One row for a person: the figure, and a line for each comparison. */
function rowText(row: BenchRow): string {
  const lines = row.comparisons.map((each) => {
    const target =
      each.target === null
        ? ""
        : `, wanted ${Number(each.target.toPrecision(3))}: ${each.speed >= each.target ? "yes" : "NO"}`;
    const speed = `${each.speed.toPrecision(3)} ×`.padStart(9);
    return `  ${speed} ± ${(each.spread * 100).toFixed(0)} %  ${each.with} (${secondsText(each.seconds)})${target}`;
  });
  return ["", headText(row), ...lines].join("\n");
}

/** The figure of a row in one line. */
export function headText({ name, world, bytes, seconds, cpuSecondsPerGib, rounds }: BenchRow): string {
  const cpu = cpuSecondsPerGib === null ? "" : `, CPU ${cpuSecondsPerGib.toPrecision(2)} s/GiB`;
  return `${name}, W=${world}, ${bytesText(bytes)}: ${secondsText(seconds)}${cpu}, median of ${rounds}`;
}

/** `1.23 s`, `45.6 ms`. */
function secondsText(seconds: number): string {
  return seconds < 1 ? `${(seconds * 1000).toPrecision(3)} ms` : `${seconds.toPrecision(3)} s`;
}

/** Bytes for a person: `256 MiB`, `1 GiB`. */
export function bytesText(bytes: number): string {
  const [unit, name] = bytes >= gib ? [gib, "GiB"] : bytes >= 2 ** 20 ? [2 ** 20, "MiB"] : [2 ** 10, "KiB"];
  return `${Number((bytes / unit).toFixed(1))} ${name}`;
}
