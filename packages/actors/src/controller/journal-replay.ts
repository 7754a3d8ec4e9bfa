/** The journal as the controller writes and reads it: one record per batch of inputs. Replaying all of them gives the state. */
import { messageOf } from "@muster/base";
import {
  type AnnounceEffect,
  applyFact,
  type ControllerEvent,
  type ControllerPlan,
  controllerLogic,
  emptyIncidentLog,
  type IncidentFact,
  type IncidentLog,
  type TimerEffect,
} from "@muster/machines";
import { pack, unpack } from "@muster/protocol";
import type { Journal } from "@muster/transport";
import { z } from "zod";
import { errors } from "../errors.ts";

/** Inputs were validated when they were accepted, and only a controller of this job may write here. */
const eventSchema = z.custom<ControllerEvent>((value) => z.looseObject({ type: z.string() }).safeParse(value).success);

const recordSchema = z.strictObject({
  v: z.literal(1),
  term: z.number().int().nonnegative(),
  /** Wall time at which it was written; only what is shown depends on it. */
  wallMs: z.number().nonnegative().optional(),
  events: z.array(eventSchema).max(100_000),
});

/** The mind of a controller. */
export type ControllerLogic = Pick<typeof controllerLogic, "id" | "init" | "step">;

/** Snapshot of the controller's machine. */
export type ControllerSnapshot = ReturnType<typeof controllerLogic.init>["snapshot"];

/** What a replay gives: where to go on. */
export interface Replayed {
  readonly snapshot: ControllerSnapshot;
  /** Timers that were running, to be started anew. */
  readonly timers: readonly TimerEffect<ControllerEvent>[];
  readonly term: number;
  /** Sequence of the last record. */
  readonly seq: number;
  readonly records: number;
  /** Public facts of the last records: the former controller may have ended before it could say them. */
  readonly untold: readonly Announcement[];
  /** The incidents of all terms so far, in wall time. */
  readonly incidents: IncidentLog;
}

/** A public fact and the id by which it is known, whoever says it: its record and its place in it. */
export interface Announcement {
  /** Record that it comes from. */
  readonly seq: number;
  readonly id: string;
  readonly effect: AnnounceEffect;
}

/** Records whose public facts a new controller says again. */
const retoldRecords = 64;

/** Id of the `index`-th public fact of a record. */
export function announcementId(seq: number, index: number): string {
  return `e${seq}.${index}`;
}

/** Bytes of one record; `wallMs` is when it is written. */
export function encodeRecord(term: number, events: readonly ControllerEvent[], wallMs?: number): Uint8Array {
  return pack({ v: 1, term, ...(wallMs === undefined ? {} : { wallMs }), events });
}

/** Reads one record. @throws MUSTER_ERR_JOURNAL_MALFORMED */
export function decodeRecord(
  seq: number,
  data: Uint8Array,
): { readonly term: number; readonly events: readonly ControllerEvent[]; readonly wallMs?: number } {
  const parsed = recordSchema.safeParse(unpackRecord(seq, data));
  if (!parsed.success) throw errors.JournalMalformed({ seq, reason: parsed.error.issues[0]?.message ?? "invalid" });
  const { term, wallMs, events } = parsed.data;
  return { term, events, ...(wallMs === undefined ? {} : { wallMs }) };
}

function unpackRecord(seq: number, data: Uint8Array): unknown {
  try {
    return unpack(data);
  } catch (error) {
    throw errors.JournalMalformed({ seq, reason: messageOf(error) }, error);
  }
}

/** Folds the journal. No effect of the past is performed; timers that would still run are kept. */
export async function replayJournal(
  journal: Journal,
  plan: ControllerPlan,
  logic: ControllerLogic = controllerLogic,
): Promise<Replayed> {
  const first = logic.init(plan);
  const timers = new Map<string, TimerEffect<ControllerEvent>>();
  let snapshot = first.snapshot;
  let term = 0;
  let seq = 0;
  let records = 0;
  let untold: Announcement[] = [];
  let incidents = emptyIncidentLog;
  const note = (effects: readonly { readonly type: string }[]): void => {
    for (const effect of effects as readonly TimerEffect<ControllerEvent>[]) {
      if (effect.type === "timer.start") timers.set(effect.id, effect);
      else if (effect.type === "timer.cancel") timers.delete(effect.id);
    }
  };
  note(first.effects);
  for await (const record of journal.read(1)) {
    const decoded = decodeRecord(record.seq, record.data);
    let announced = 0;
    for (const event of decoded.events) {
      const step = logic.step(snapshot, event);
      snapshot = step.snapshot;
      note(step.effects);
      for (const effect of step.effects) {
        if (effect.type !== "announce") continue;
        untold.push({ seq: record.seq, id: announcementId(record.seq, announced++), effect });
        if (decoded.wallMs !== undefined) incidents = applyFact(incidents, factOf(effect, decoded.wallMs));
      }
    }
    untold = untold.filter((fact) => fact.seq > record.seq - retoldRecords);
    term = Math.max(term, decoded.term);
    seq = record.seq;
    records += 1;
  }
  return { snapshot, timers: [...timers.values()], term, seq, records, untold, incidents };
}

/** A public fact as the log of incidents takes it. */
export function factOf({ kind, body }: Pick<AnnounceEffect, "kind" | "body">, atMs: number): IncidentFact {
  return { kind, body, atMs } as IncidentFact;
}
