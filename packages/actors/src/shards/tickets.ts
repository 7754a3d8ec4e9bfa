/** What rank 0 of a replica of several processes gives to the others for a version, and what each of them gives back when it has its part. */
import { type Body, messageTable, sectionsOfPart, z } from "@muster/protocol";
import { errors } from "../errors.ts";
import { readText, writeText } from "./read-text.ts";

/** What a rank needs to know to take its part: what the order says of `serving`. */
export interface Ticket extends Pick<Body<"weights.pull">, "lineage" | "version" | "sections" | "holders"> {
  /** Of this one order: a receipt for an earlier one, as of a life before, does not count. */
  readonly order: string;
}

const count = z.number().int().nonnegative();
const orderSchema = z.string().min(1).max(64);
const receiptSchema = z.strictObject({
  order: orderSchema,
  /** Of the rank's engine. */
  build: z.string().max(128),
  lineage: count,
  version: count,
  rank: count,
  bytes: count,
  /** That crossed a network for it. */
  wireBytes: count,
  digest: z.string().min(1).max(128),
});

const ticketSchema = messageTable["weights.pull"].body.extend({ order: orderSchema });

/** That a rank has its part of a version: how much that is, and its digest. */
export type Receipt = z.infer<typeof receiptSchema>;

const invalid = (reason: string): Error => errors.ShardTicket({ reason });

/** Writes the ticket of an order. Pure. @throws MUSTER_ERR_SHARD_TICKET */
export function ticketOf({ order, lineage, version, sections, holders }: Ticket): string {
  const serving = sectionsOfPart(sections, "serving").map(({ table: _, ...section }) => section);
  return writeText({ order, lineage, version, sections: serving, holders } satisfies Ticket, invalid);
}

/** Reads a ticket: it came through the engine's own channel. @throws MUSTER_ERR_SHARD_TICKET */
export function readTicket(text: string): Ticket {
  return readText(ticketSchema, text, invalid);
}

/** Writes a receipt. Pure. */
export function writeReceipt(receipt: Receipt): string {
  return JSON.stringify(receipt);
}

/** What receipts are of, and the build that all ranks of a replica have. */
type ReceiptSubject = Pick<Ticket, "order" | "lineage" | "version"> & Pick<Receipt, "build">;

/** The receipts of one version: it is held when each rank of the replica has its part of it, and not before. */
export class Receipts {
  readonly #wanted: ReceiptSubject;
  readonly #bytes: readonly number[];
  readonly #got = new Map<number, Receipt>();

  /** @param bytes - Size of the part of each rank. */
  constructor(wanted: ReceiptSubject, bytes: readonly number[]) {
    this.#wanted = wanted;
    this.#bytes = bytes;
  }

  /** Takes the receipt of a rank; the same twice is one. @throws MUSTER_ERR_SHARD_RECEIPT naming what is wrong with it */
  add(text: string): void {
    const invalid = (reason: string): Error => errors.ShardReceipt({ version: this.#wanted.version, reason });
    const receipt = readText(receiptSchema, text, invalid);
    const { order, build, lineage, version, rank, bytes, digest } = receipt;
    if (lineage !== this.#wanted.lineage || version !== this.#wanted.version)
      throw invalid(`rank ${rank} has version ${version} of lineage ${lineage}`);
    if (order !== this.#wanted.order) throw invalid(`rank ${rank} gave it for another order of this version`);
    if (build !== this.#wanted.build)
      throw invalid(`rank ${rank} has engine build ${build}, and rank 0 has ${this.#wanted.build}`);
    const size = this.#bytes[rank];
    if (size === undefined) throw invalid(`it is of rank ${rank}, and there are ${this.#bytes.length} ranks`);
    if (bytes !== size) throw invalid(`rank ${rank} has ${bytes} bytes, and its part is ${size}`);
    const other = this.#got.get(rank)?.digest ?? digest;
    if (other !== digest) throw invalid(`rank ${rank} had ${other} before and has ${digest} now`);
    this.#got.set(rank, receipt);
  }

  /** @returns Bytes of all parts, and of those what crossed a network. @throws MUSTER_ERR_SHARD_MISSING naming the ranks that gave no receipt */
  complete(): { readonly bytes: number; readonly wireBytes: number } {
    const missing = this.#bytes.flatMap((_, rank) => (this.#got.has(rank) ? [] : [rank]));
    if (missing.length > 0)
      throw errors.ShardMissing({
        version: this.#wanted.version,
        ranks: missing.slice(0, 16).join(", "),
        size: this.#bytes.length,
      });
    const sum = (of: (receipt: Receipt) => number): number =>
      [...this.#got.values()].reduce((all, receipt) => all + of(receipt), 0);
    return { bytes: sum(({ bytes }) => bytes), wireBytes: sum(({ wireBytes }) => wireBytes) };
  }
}
