/** A replica's machine that a test drives. */
import type { Logic } from "@muster/machines";
import { eventsOf } from "./model/alphabet.ts";

/** What a machine asks for, as tests look at it. */
export interface Effect {
  readonly type: string;
  readonly kind?: string;
  readonly reason?: string;
  readonly body?: unknown;
}

/** One replica: hears events, remembers what it asked for. */
export class Replica {
  readonly effects: Effect[] = [];
  snapshot: unknown;
  readonly #logic: Logic<unknown, unknown, unknown, Effect>;

  constructor(logic: object, input: unknown) {
    this.#logic = logic as Logic<unknown, unknown, unknown, Effect>;
    const { snapshot, effects } = this.#logic.init(input);
    this.snapshot = snapshot;
    this.effects.push(...effects);
  }

  /** Hears an event. @returns What it asked for because of it, timers apart. */
  hear(event: object): Effect[] {
    const { snapshot, effects } = this.#logic.step(this.snapshot, event);
    this.snapshot = snapshot;
    this.effects.push(...effects);
    return effects.filter(({ type }) => !type.startsWith("timer."));
  }

  get value(): unknown {
    return (this.snapshot as { value: unknown }).value;
  }
}

/** The n-th event of a type in the alphabet of a machine. */
export function eventOf(machine: string, type: string, n = 0): object {
  const event = eventsOf(machine).filter((candidate) => candidate.type === type)[n];
  if (!event) throw new Error(`the alphabet of ${machine} has no ${type} number ${n}`);
  return event;
}
