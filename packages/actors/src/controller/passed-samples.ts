/** What samplers show of their groups goes on to whoever watches: without a record, within bounds, and only of steps that are being worked on. */
import type { AnnounceEffect } from "@muster/machines/controller";
import type { AnyMessage, Body, JobConfig } from "@muster/protocol";

/** What is passed on with. */
export interface PassedSamplesOptions {
  readonly config: Pick<JobConfig, "samples">;
  /** The step that is next to commit. */
  readonly nextStep: () => number;
  readonly say: (fact: AnnounceEffect) => void;
}

/** A group may be drawn again when its sampler dies or its result was of no use. */
const timesMax = 4;

/** Steps before the next one whose samples are late, and steps after it that are sampled ahead. */
const lateSteps = 2;
const earlySteps = 64;

/** Passes samples on. */
export class PassedSamples {
  readonly #options: PassedSamplesOptions;
  /** How often a group was passed on, by `<step>.<index>`. */
  readonly #times = new Map<string, number>();

  constructor(options: PassedSamplesOptions) {
    this.#options = options;
  }

  /** @returns True for a message that is one of these, and nothing else. */
  take(message: AnyMessage): boolean {
    if (message.kind !== "samples.drawn") return false;
    const { from, body } = message as AnyMessage & { readonly body: Body<"samples.drawn"> };
    const { step, index } = body;
    const next = this.#options.nextStep();
    const key = `${step}.${index}`;
    const times = this.#times.get(key) ?? 0;
    const isWanted =
      index < this.#options.config.samples.groups && step >= next - lateSteps && step <= next + earlySteps;
    if (!isWanted || times >= timesMax) return true;
    for (const known of this.#times.keys())
      if (Number.parseInt(known, 10) < next - lateSteps) this.#times.delete(known);
    this.#times.set(key, times + 1);
    this.#options.say({ type: "announce", kind: "samples.shown", body: { ...body, replica: from } });
    return true;
  }
}
