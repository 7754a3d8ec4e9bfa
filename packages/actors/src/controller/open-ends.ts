/**
 * What the records of a journal leave open beside the state: timers that run, public facts that may not have been said, incidents. Whoever
 * writes the journal keeps it in the same way as whoever replays it.
 */
import { applyFact, emptyIncidentLog, type IncidentFact, type IncidentLog, type TimerEffect } from "@muster/machines";
import type { AnnounceEffect, ControllerEffect, ControllerEvent } from "@muster/machines/controller";

/** A public fact and the id by which it is known, whoever says it: its record and its place in it. */
export interface Announcement {
  /** Record that it comes from. */
  readonly seq: number;
  readonly id: string;
  readonly effect: AnnounceEffect;
}

/** A timer of the controller's machine, as it was started. */
export type RunningTimer = Extract<TimerEffect<ControllerEvent>, { readonly type: "timer.start" }>;

/** What the machine asks for: by its tables, or by its watchdogs. */
export type MachineEffect = ControllerEffect | TimerEffect<ControllerEvent>;

/** The open ends at one record. */
export interface OpenEnds {
  /** Timers that were running, to be started anew. */
  readonly timers: readonly RunningTimer[];
  /** Public facts, in order, that may not have been said: those behind the mark of the last record, and of the last records in any case. */
  readonly untold: readonly Announcement[];
  /** The incidents of all terms so far, in wall time. */
  readonly incidents: IncidentLog;
}

/** Nothing is open. */
const noOpenEnds: OpenEnds = { timers: [], untold: [], incidents: emptyIncidentLog };

/** Records whose public facts a new controller says again although their writer has said them: the broker may have lost the end of the events. */
const retoldRecords = 64;

/** Keeps the open ends from record to record. */
export class OpenEndKeeper {
  readonly #timers: Map<string, RunningTimer>;
  #untold: readonly Announcement[];
  #incidents: IncidentLog;

  constructor({ timers, untold, incidents }: OpenEnds = noOpenEnds) {
    this.#timers = new Map(timers.map((timer) => [timer.id, timer]));
    this.#untold = untold;
    this.#incidents = incidents;
  }

  /** Takes timers that no record led to: those of the machine's beginning. */
  begun(effects: readonly MachineEffect[]): void {
    for (const effect of effects) {
      if (effect.type === "timer.start") this.#timers.set(effect.id, effect);
      else if (effect.type === "timer.cancel") this.#timers.delete(effect.id);
    }
  }

  /** A record of inputs led to `effects`. @returns Its public facts. */
  recorded({ seq, wallMs, told = seq }: RecordPlace, effects: readonly MachineEffect[]): readonly Announcement[] {
    this.begun(effects);
    const facts = effects.filter((effect) => effect.type === "announce");
    const news = facts.map((effect, index) => ({ seq, id: announcementId(seq, index), effect }));
    const done = Math.min(told, seq - retoldRecords);
    this.#untold = [...this.#untold.filter((fact) => fact.seq > done), ...news];
    if (wallMs !== undefined)
      for (const fact of facts) this.#incidents = applyFact(this.#incidents, factOf(fact, wallMs));
    return news;
  }

  get(): OpenEnds {
    return { timers: [...this.#timers.values()], untold: this.#untold, incidents: this.#incidents };
  }
}

/** Where a record lies, when it was written, and what its writer knew then. */
export interface RecordPlace {
  readonly seq: number;
  readonly wallMs?: number | undefined;
  /** Public facts up to this record were told; absent in records of before it was said, whose writers said the last ones alone again. */
  readonly told?: number | undefined;
}

/** Id of the `index`-th public fact of a record. */
export function announcementId(seq: number, index: number): string {
  return `e${seq}.${index}`;
}

/** A public fact as the log of incidents takes it. */
export function factOf({ kind, body }: Pick<AnnounceEffect, "kind" | "body">, atMs: number): IncidentFact {
  return { kind, body, atMs } as IncidentFact;
}
