/** The sign of life of the acting controller: a small key of its own, so that nothing else that it shows can silence it. */
import { pack, unpack } from "@muster/protocol";
import type { StateStore } from "@muster/transport";
import { z } from "zod";

/** Key of the sign in the job's state store. */
const aliveKey = "alive";

const aliveSchema = z.looseObject({ term: z.number(), incarnation: z.string(), beat: z.number(), isOver: z.boolean() });

/** What the acting controller writes every second. */
export type Alive = z.infer<typeof aliveSchema>;

/** Writes the sign. */
export async function writeAlive(state: StateStore, alive: Alive): Promise<void> {
  await state.put(aliveKey, pack(alive));
}

/** The sign as it stands, with the revision that each writing changes; `null` when there is none. */
export async function readAlive(state: StateStore): Promise<(Alive & { readonly revision: number }) | null> {
  const entry = await state.get(aliveKey);
  return entry && { ...aliveSchema.parse(unpack(entry.value)), revision: entry.revision };
}
