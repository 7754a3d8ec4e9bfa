/** The buffer of messages about weights on their way, one per update: what was added, what is over, and what is too late. */
import {
  bytesOf,
  type Outcome,
  refuse,
  type Topology,
  type TopologyRules,
  type WeightMeta,
  type WeightUpdate,
  withEntry,
} from "./state.ts";

/** The update of clients that name none. */
const unnamedUpdate = "";

/** Updates that are over and still remembered, so that a late receiver hears so. */
const rememberedMax = 1_024;

/** Adds one message. An update that is over under its own name stays over; the unnamed one begins anew. */
export function addWeightMeta(
  state: Topology,
  sent: { readonly updateId: string; readonly sender: string | null; readonly entry: WeightMeta },
  { now, rules }: { readonly now: number; readonly rules: TopologyRules },
): Outcome<{ readonly index: number }> {
  const found = state.updates.get(sent.updateId);
  if (found?.goneBecause && sent.updateId !== unnamedUpdate) return goneText(sent.updateId, found.goneBecause);
  const open = found?.goneBecause === null ? found : undefined;
  if (open === undefined && openUpdates(state) >= rules.updatesMax)
    return refuse(
      507,
      `update_id: ${rules.updatesMax} updates are open already; clear those that are over`,
      "update_id",
    );
  const bytes = (open?.bytes ?? 0) + bytesOf(sent.entry);
  const index = open?.entries.length ?? 0;
  if (index >= rules.entriesMax || bytesOfOthers(state, sent.updateId) + bytes > rules.updateBytesMax)
    return refuse(507, `names: the buffer is full with ${index} messages; clear it with /clear_weight_meta`, "names");
  const update: WeightUpdate = {
    entries: [...(open?.entries ?? []), sent.entry],
    bytes,
    touched: now,
    sender: sent.sender ?? open?.sender ?? null,
    generation: (found?.generation ?? 0) + (found?.goneBecause ? 1 : 0),
    goneBecause: null,
  };
  return { state: { ...state, updates: withEntry(state.updates, sent.updateId, update) }, answer: { index } };
}

/** Messages from an index on, of one group where one is named. Nothing yet is an empty list; what is over is 410. */
export function weightMetaFrom(
  state: Topology,
  asked: { readonly updateId: string; readonly index: number; readonly group: string | null },
): Outcome<readonly WeightMeta[]> {
  const update = state.updates.get(asked.updateId);
  const isNamed = asked.updateId !== unnamedUpdate;
  if (update?.goneBecause && (isNamed || asked.index > 0)) return goneText(asked.updateId, update.goneBecause);
  const all = update?.entries ?? [];
  const chosen = asked.group === null ? all : all.filter(({ group_name }) => group_name === asked.group);
  if (asked.index > chosen.length && update !== undefined && update.generation > 0)
    return refuse(
      410,
      `index: ${asked.index} is behind the ${chosen.length} messages here; the buffer was cleared`,
      "index",
    );
  return { state, answer: chosen.slice(asked.index) };
}

/** Ends an update: who comes later hears that it is over. */
export function clearWeightMeta(state: Topology, updateId: string): Outcome<{ readonly message: string }> {
  return { state: endUpdates(state, [updateId], "it was cleared"), answer: { message: "cleared" } };
}

/** Ids of updates that nobody added to for too long. */
export function staleUpdates(state: Topology, now: number, rules: TopologyRules): readonly string[] {
  return [...state.updates]
    .filter(([, { goneBecause, touched }]) => goneBecause === null && now - touched > rules.updateTtlMs)
    .map(([id]) => id);
}

/** Ends updates, and forgets the oldest of those that are over when there are too many. */
export function endUpdates(state: Topology, ids: readonly string[], why: string): Topology {
  const updates = new Map(state.updates);
  for (const id of ids) {
    const ended = updates.get(id);
    if (ended === undefined || ended.goneBecause !== null) continue;
    updates.delete(id);
    updates.set(id, { ...ended, entries: [], bytes: 0, goneBecause: why });
  }
  const over = [...updates].filter(([, { goneBecause }]) => goneBecause !== null);
  for (const [id] of over.slice(0, Math.max(0, over.length - rememberedMax))) updates.delete(id);
  return { ...state, updates };
}

/** Updates that are over have none. */
function bytesOfOthers(state: Topology, updateId: string): number {
  return [...state.updates].reduce((sum, [id, { bytes }]) => (id === updateId ? sum : sum + bytes), 0);
}

function openUpdates(state: Topology): number {
  return [...state.updates.values()].filter(({ goneBecause }) => goneBecause === null).length;
}

function goneText(updateId: string, why: string) {
  return refuse(410, `update_id: the update "${updateId}" is over, ${why}; begin with a new one`, "update_id");
}
