/**
 * The turns of a group whose samples generate by themselves. A sample that is begun again, here or elsewhere, asks its questions again and gets the answers
 * that there were, so its code need not know that it was interrupted. That ends where it asks something else than before.
 */
import { createHash } from "node:crypto";
import { type BegunTrajectory, type BegunTurn, begunMax } from "@muster/protocol";
import type { Generated, GenerateRequest } from "../engine.ts";
import { segmentsOf } from "./begun-group.ts";

/** The turns of one group. */
export class KeptTurns {
  readonly #turns = new Map<string, BegunTrajectory>();

  /** `begun` is what an earlier holder kept. */
  constructor(begun: readonly BegunTrajectory[] = []) {
    for (const one of begun) if (one.turn && !isNothing(one)) this.#turns.set(nameOf(one.turn), one);
  }

  /** All of them, in the order in which they were begun. */
  get all(): readonly BegunTrajectory[] {
    return [...this.#turns.values()];
  }

  /** What there is of this turn: `null` for nothing, `differs` for an answer to something else, which is forgotten with all that its sample asked later. */
  find(asked: BegunTurn): BegunTrajectory | "differs" | null {
    const found = this.#turns.get(nameOf(asked));
    if (!found || found.turn?.request === asked.request) return found ?? null;
    for (const [name, { turn }] of this.#turns)
      if (turn && turn.sample === asked.sample && turn.at >= asked.at) this.#turns.delete(name);
    return "differs";
  }

  /** Keeps what is drawn of a turn by now; `resumed` is what it went on from. */
  keep(turn: BegunTurn, generated: Generated, resumed: BegunTrajectory | undefined): void {
    const { responseIds, logprobs, finish } = generated;
    const segments = segmentsOf(generated, resumed);
    const kept = { turn, responseIds, logprobs, finish: finish === "abort" ? null : finish, segments };
    const name = nameOf(turn);
    if (!isNothing(kept) && (this.#turns.size < begunMax || this.#turns.has(name))) this.#turns.set(name, kept);
  }
}

/** What names a question: two with the same name are the same. Pure. */
export function digestOfRequest({ promptIds, sampling, seed }: Omit<GenerateRequest, "requestId">): string {
  const { buffer, byteOffset, byteLength } = promptIds;
  return createHash("sha256")
    .update(`${JSON.stringify(sampling)} ${seed} `)
    .update(new Uint8Array(buffer, byteOffset, byteLength))
    .digest("hex")
    .slice(0, 32);
}

/** The answer as the engine gave it. `version` counts for one without tokens. Pure. */
export function answerOf({ responseIds, logprobs, finish, segments }: BegunTrajectory, version: number): Generated {
  return {
    ...{ responseIds: responseIds.slice(), logprobs: logprobs.slice(), finish: finish ?? "abort" },
    versionAtStart: segments[0]?.version ?? version,
    versionAtEnd: segments.at(-1)?.version ?? version,
  };
}

/** A turn that was not begun, as groups carry it that are handed back before anything is drawn. Pure. */
export function nothingDrawn(): BegunTrajectory {
  const turn = { sample: 0, at: 0, request: "" };
  return { turn, responseIds: new Int32Array(0), logprobs: new Float32Array(0), finish: null, segments: [] };
}

function isNothing({ responseIds, finish }: Pick<BegunTrajectory, "responseIds" | "finish">): boolean {
  return finish === null && responseIds.length === 0;
}

const nameOf = ({ sample, at }: BegunTurn): string => `${sample}.${at}`;
