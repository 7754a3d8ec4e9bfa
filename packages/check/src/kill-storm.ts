/**
 * Storms of kills, counted from what is journaled and not by the controller's own count: where others are killed as often as the holders of a group,
 * four of its kills count as one. It counts too little rather than too much, so that who is held to it did wrong for certain: only members without
 * leases stand for others, and nobody of an earlier term or of before a group was found that ends trainers.
 */
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import type { Decision } from "./journal-model.ts";

/** Less than the time for which the controller remembers a loss. */
const windowMs = 500_000;

/** Kills in a storm that weigh as much as one loss. */
const killsPerLoss = 4;

type Exit = Extract<ControllerEvent, { readonly type: "process.exited" }>;

/** True for the end of a process by SIGKILL that somebody saw. Pure. */
export function isSeenKill(event: ControllerEvent): event is Exit {
  return event.type === "process.exited" && event.body.signal === "SIGKILL" && event.body.oom !== true;
}

/** Kills of others, and what they excuse, by group. */
export class KillStorm {
  #othersAtMs: readonly number[] = [];
  readonly #kills = new Map<string, number>();
  readonly #light = new Map<string, number>();

  /** A decision was journaled. */
  decided({ event, before, after }: Decision): void {
    // The clock of a term is its own.
    if (event.type === "controller.elected") this.#othersAtMs = [];
    if (!isSeenKill(event)) return;
    const { id } = event.body;
    const isLost = before.members[id] !== undefined && after.members[id] === undefined;
    const isHolder = Object.values(before.leases).some(({ holder }) => holder === id);
    if (isLost && !isHolder) this.#othersAtMs = [...this.#othersAtMs, after.nowMs];
  }

  /** What was killed so far has a cause: a group that ends trainers was found. */
  explained(): void {
    this.#othersAtMs = [];
  }

  /** A holder of a group was killed; with this it has lost so many, for whatever reason. */
  lost(item: string, losses: number, { nowMs }: ControllerState): void {
    const kills = (this.#kills.get(item) ?? 0) + 1;
    this.#kills.set(item, kills);
    const others = this.#othersAtMs.filter((atMs) => nowMs - atMs < windowMs);
    if (others.length > losses) this.#light.set(item, kills);
  }

  /** As how many losses these count, at most. */
  weightOf(item: string, losses: number): number {
    const light = this.#light.get(item) ?? 0;
    return losses - light + Math.ceil(light / killsPerLoss);
  }
}
