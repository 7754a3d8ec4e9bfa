/** What the journal of a job proves. */
import { type ControllerState, imbalanceOf, ledgerOf } from "@muster/machines/controller";
import { expect } from "vitest";
import { decodeRecord } from "../../src/controller/index.ts";
import type { ControllerSnapshot } from "../../src/internal.ts";
import type { SmallJob } from "./small-job.ts";

/** Every digest that some replica acknowledged, by `<lineage>.<version> <section>`: one each, unless weights diverged. */
export async function heldDigests(job: SmallJob): Promise<Readonly<Record<string, readonly string[]>>> {
  const held = new Map<string, Set<string>>();
  for await (const { seq, data } of job.transport.journal().read(1)) {
    for (const event of decodeRecord(seq, data).events) {
      if (event.type !== "weights.held") continue;
      const { lineage, version, sections } = event.body;
      for (const { name, digest } of sections) {
        const key = `${lineage}.${version} ${name}`;
        held.set(key, (held.get(key) ?? new Set()).add(digest));
      }
    }
  }
  return Object.fromEntries([...held].map(([key, digests]) => [key, [...digests]]));
}

/** Expects what is true of every job that ended well: nothing lost, nothing trained twice, nothing open. */
export function expectBalanced(state: ControllerState): void {
  const { steps, groupsPerStep, groupSize } = state.plan;
  const ledger = ledgerOf(state);
  expect(imbalanceOf(ledger)).toBe(0);
  expect(ledger).toMatchObject({ pending: 0, quarantined: 0, trained: steps * groupsPerStep * groupSize });
  expect(state.leases).toEqual({});
}

/** The digest of a section of the committed weights. */
export function digestIn({ context }: ControllerSnapshot, section = "weights"): string | undefined {
  return context.state.weights?.sections.find(({ name }) => name === section)?.digest;
}

/** A snapshot as the journal's bytes could give it. */
export function plain(snapshot: ControllerSnapshot): unknown {
  return JSON.parse(JSON.stringify(snapshot));
}
