/**
 * What servers' checksums of their weights prove. A server hashes what it made of the files: cast, fused and split over its ranks, by a hash of its own. So
 * a checksum is compared with those that servers of the same layout gave: equal files have equal ones, other weights have others.
 */
import { createHash } from "node:crypto";
import type { ServerClient } from "./client.ts";
import type { Dialect, WeightPlace } from "./dialect.ts";
import { differ } from "./weight-sample.ts";

/** One answer of a checksum route. */
export interface WeightChecksum {
  /** Of the checksums of all tensors of all ranks; SHA-256. */
  readonly digest: string;
  /** Of their names and ranks: only checksums of one layout can be compared. */
  readonly layout: string;
}

/** Longest answer: a checksum for each tensor of each rank. */
const bytesMax = 64 * 2 ** 20;
/** Answers of a server that has no such route, or none for us. */
const notOffered = [400, 401, 403, 404, 405, 409, 422, 501];

/**
 * Asks for a checksum.
 *
 * @returns It, or why the server offers none, as the end of the sentence "…: ". @throws what the client throws
 */
export async function askChecksum(
  { path, sumsIn }: NonNullable<Dialect["checksum"]>,
  client: ServerClient,
  call: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<WeightChecksum | string> {
  const body = { action: "checksum" };
  const { status, table } = await client.call({ path, body, bytesMax, allowed: notOffered, ...call });
  if (notOffered.includes(status)) return `${path} answers ${status}`;
  const sums = sumsIn(table ?? {});
  if (!sums || sums.length === 0) return `the answer of ${path} has no checksums`;
  const names = sums.map(([name]) => name).sort();
  return { digest: digestOf(sums.map((sum) => sum.join(" ")).sort()), layout: digestOf(names) };
}

const digestOf = (lines: readonly string[]): string => createHash("sha256").update(lines.join("\n")).digest("hex");

/** Pairs of a table of texts by name. @returns `null` for anything else. Pure. */
export function textPairs(table: Readonly<Record<string, unknown>> | null): [name: string, sum: string][] | null {
  const pairs = Object.entries(table ?? {});
  return table && pairs.every(([, sum]) => typeof sum === "string") ? (pairs as [string, string][]) : null;
}

interface Known extends Pick<WeightPlace, "tag" | "sample"> {
  readonly byLayout: Map<string, { readonly digest: string; readonly server: string }>;
}

const [versionsKept, layoutsMax] = [2, 64];

/** Checksums of the newest versions, as the servers of one engine gave them. */
export class Checksums {
  #known: readonly Known[] = [];

  /**
   * Compares a checksum with what is known, and keeps it when nothing stands against it.
   *
   * @returns What stands against it, as the end of the sentence "its checksum …"; `null` for nothing.
   */
  admit({ tag, sample }: Pick<WeightPlace, "tag" | "sample">, found: WeightChecksum, server: string): string | null {
    const { digest, layout } = found;
    const own = this.#known.find((each) => each.tag === tag) ?? { tag, sample, byLayout: new Map() };
    const before = own.byLayout.get(layout);
    if (before && before.digest !== digest)
      return `is not what ${before.server === server ? "it was before" : `that of ${before.server} is`}, of the same files`;
    const same = this.#known.find((each) => each.tag !== tag && each.byLayout.get(layout)?.digest === digest);
    if (same && differ(same.sample, sample)) return `is still that of ${same.tag}, whose weights are others`;
    if (own.byLayout.size < layoutsMax) own.byLayout.set(layout, { digest, server });
    this.#known = [...this.#known.filter((each) => each !== own), own].slice(-versionsKept);
    return null;
  }
}
