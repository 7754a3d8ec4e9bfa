/** Signs that a host may fail soon (semantics 6.14): what the kernel, the sensors and the GPUs' driver count. Linux; elsewhere there are none. */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import type { Body } from "@muster/protocol";

/** One sign: its kind, and what was seen, in words. */
export type HostSign = Body<"node.signs">["signs"][number];

/** Looks at a host again and again. */
export interface HostSigns {
  /** What can be seen now. Never throws: what cannot be read is no sign. */
  read(): Promise<Body<"node.signs">["signs"]>;
  close(): void;
}

/** Where a host is read. */
export interface HostSignsOptions {
  /** Root of `/proc` and `/sys`. Default `/`. */
  readonly root?: string;
  /** Environment in whose `PATH` `nvidia-smi` is looked for. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Readings in a row for which a sign that comes and goes must be there; what counts errors counts at once. */
const heldReadings = 3;
const passing: readonly HostSign["kind"][] = ["memory", "heat", "stall"];

/** The signs of this host. */
export function openHostSigns({ root = "/", env }: HostSignsOptions): HostSigns {
  const delay = monitorEventLoopDelay({ resolution: 20 });
  delay.enable();
  const gpus = new GpuReader(env);
  const inRow = new Map<HostSign["kind"], number>();
  return {
    async read() {
      const seen = [
        ...memoryOf(root),
        ...memoryErrorsOf(root),
        ...heatOf(root),
        ...stallOf(delay),
        ...(await gpus.read()),
      ];
      for (const kind of passing) {
        const isSeen = seen.some((sign) => sign.kind === kind);
        inRow.set(kind, isSeen ? (inRow.get(kind) ?? 0) + 1 : 0);
      }
      return seen.filter(({ kind }) => (inRow.get(kind) ?? heldReadings) >= heldReadings);
    },
    close: () => delay.disable(),
  };
}

/** Share of memory that must be available. */
const memoryFreeMin = 0.02;

function memoryOf(root: string): readonly HostSign[] {
  const text = textOf(join(root, "proc/meminfo"));
  const kib = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1] ?? Number.NaN);
  const share = kib("MemAvailable") / kib("MemTotal");
  if (!(share < memoryFreeMin)) return [];
  return [{ kind: "memory", detail: `${(100 * share).toFixed(1)} % of the memory is available` }];
}

/** Errors that memory could not correct. */
function memoryErrorsOf(root: string): readonly HostSign[] {
  const folder = join(root, "sys/devices/system/edac/mc");
  const bad = entriesOf(folder).flatMap((name) => {
    const count = Number(textOf(join(folder, name, "ue_count")) || 0);
    return count > 0 ? [`${name} counts ${count}`] : [];
  });
  return bad.length === 0
    ? []
    : [{ kind: "memory-errors", detail: `memory errors beyond correction: ${bad.join(", ")}` }];
}

/** Distance to the temperature at which the host turns itself off, in thousandths of a degree. */
const heatMargin = 5_000;

function heatOf(root: string): readonly HostSign[] {
  const folder = join(root, "sys/class/thermal");
  const hot = entriesOf(folder).flatMap((name) => {
    const zone = join(folder, name);
    const limit = criticalOf(zone);
    const now = Number(textOf(join(zone, "temp")) || Number.NaN);
    if (limit === null || !(now >= limit - heatMargin)) return [];
    return [`${name} has ${(now / 1000).toFixed(0)} °C, and is turned off at ${(limit / 1000).toFixed(0)} °C`];
  });
  return hot.length === 0 ? [] : [{ kind: "heat", detail: hot.join("; ") }];
}

function criticalOf(zone: string): number | null {
  for (const name of entriesOf(zone)) {
    const number = /^trip_point_(\d+)_type$/.exec(name)?.[1];
    if (number === undefined || textOf(join(zone, name)).trim() !== "critical") continue;
    const limit = Number(textOf(join(zone, `trip_point_${number}_temp`)) || 0);
    if (limit > 0) return limit;
  }
  return null;
}

/** Half of all turns of the loop took longer: the host does not get its processor. */
const stallMs = 1_000;

function stallOf(delay: IntervalHistogram): readonly HostSign[] {
  const medianMs = delay.percentile(50) / 1e6;
  delay.reset();
  if (medianMs < stallMs) return [];
  return [{ kind: "stall", detail: `the node's own loop comes round once in ${Math.round(medianMs)} ms` }];
}

/** What a GPU is asked, in this order. */
const gpuFields = [
  "index",
  "ecc.errors.uncorrected.volatile.total",
  "retired_pages.pending",
  "clocks_throttle_reasons.hw_thermal_slowdown",
];
const gpuDeadlineMs = 8_000;
/** Exit codes of `nvidia-smi` that tell of a broken GPU: an interrupt lost, its memory of settings corrupt, off the bus (Xid 79). */
const gpuFailures = new Set([10, 14, 15]);

class GpuReader {
  readonly #env: HostSignsOptions["env"];
  #isThere = true;

  constructor(env: HostSignsOptions["env"]) {
    this.#env = env;
  }

  async read(): Promise<readonly HostSign[]> {
    if (!this.#isThere) return [];
    const { code, text } = await this.#ask();
    if (code === "ENOENT" || code === "EACCES") this.#isThere = false;
    if (typeof code === "number" && gpuFailures.has(code))
      return [{ kind: "gpu", detail: `nvidia-smi ends with ${code}: ${text.trim().slice(0, 200)}` }];
    if (code !== 0) return [];
    const bad = text.split("\n").flatMap(gpuTrouble);
    return bad.length === 0 ? [] : [{ kind: "gpu", detail: bad.join("; ").slice(0, 500) }];
  }

  #ask(): Promise<{ readonly code: number | string | null; readonly text: string }> {
    const args = [`--query-gpu=${gpuFields.join(",")}`, "--format=csv,noheader,nounits"];
    return new Promise((resolve) => {
      execFile(
        "nvidia-smi",
        args,
        { env: this.#env, timeout: gpuDeadlineMs, killSignal: "SIGKILL" },
        (error, out, err) => {
          if (error === null) resolve({ code: 0, text: out });
          else resolve({ code: error.code ?? null, text: err || out });
        },
      );
    });
  }
}

/** One line of what `nvidia-smi` prints; a field that a GPU does not have says so in brackets. */
function gpuTrouble(line: string): readonly string[] {
  const [index, errors, retired, slowdown] = line.split(",").map((cell) => cell.trim());
  const bad = [
    ...(Number(errors) > 0 ? [`${errors} memory errors beyond correction`] : []),
    ...(retired === "Yes" ? ["pages of memory wait to be retired"] : []),
    ...(slowdown === "Active" ? ["slowed down by heat"] : []),
  ];
  return bad.length === 0 ? [] : [`GPU ${index}: ${bad.join(", ")}`];
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // What this kernel does not have, or does not let us read, is no sign.
    return "";
  }
}

function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}
