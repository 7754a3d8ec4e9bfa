/** A journal that a controller's logic and its writer make of inputs, without the rest of a controller. */
import { silentLogger } from "@muster/base";
import { type ControllerEvent, type ControllerPlan, controllerLogic, type Rules } from "@muster/machines/controller";
import type { Transport } from "@muster/transport";
import { createMemoryBroker, type MemoryBroker } from "@muster/transport/internal";
import { type ControllerLogic, decodeRecord, OpenEndKeeper, type OpenEnds } from "../../src/controller/index.ts";
import { JournalWriter } from "../../src/controller/journal-writer.ts";
import { type ControllerSnapshot, type Replayed, replayJournal } from "../../src/internal.ts";
import { clock } from "./environment.ts";

/** What may go wrong with what a writer asks of the broker; default nothing. */
export type Mishap = (call: "append" | "append.done" | "purge") => void | Promise<void>;

/** Who takes the job over. */
export interface Program {
  readonly rules: Rules;
  readonly logic: ControllerLogic;
}

const program: Program = { rules: { digest: "a", build: "1.0.0" }, logic: controllerLogic };

/** A journal under test. */
export class WrittenJournal {
  readonly broker: MemoryBroker = createMemoryBroker();
  readonly transport: Transport = this.broker.connect("controller.controller.i1");
  /** Every record of inputs that was stored, whether or not it is still there. */
  readonly inputs: { readonly seq: number; readonly data: Uint8Array }[] = [];
  readonly parts: number[] = [];
  mishap: Mishap = () => {};
  /** Up to which record the broker has the public facts. */
  toldUpTo: (seq: number) => number = (seq) => seq;
  /** What the operator heard. */
  readonly alarms: string[] = [];
  /** The live state of the last controller when its last record of inputs was stored. */
  lived: ControllerSnapshot | null = null;
  readonly #plan: ControllerPlan;
  readonly #given: { readonly snapshotRecords: number; readonly partBytes?: number };
  #terms = 0;
  #stepped: ControllerSnapshot | null = null;

  constructor(plan: ControllerPlan, given: { readonly snapshotRecords: number; readonly partBytes?: number }) {
    this.#plan = plan;
    this.#given = given;
  }

  /** One term of a controller: it replays, begins the term, and takes batches of inputs until something goes wrong. */
  async writeTerm(
    batches: readonly (readonly ControllerEvent[])[],
    { by = program, isEnded = false }: { readonly by?: Program; readonly isEnded?: boolean } = {},
  ): Promise<void> {
    const { rules, logic } = by;
    const replayed = await replayJournal(this.transport.journal(), this.#plan, logic, rules);
    const writer = this.#writer(replayed, rules);
    let { snapshot } = replayed;
    const elected: ControllerEvent = { type: "controller.elected", atMs: replayed.seq, term: replayed.term + 1, rules };
    for (const events of [[elected], ...batches]) {
      const steps = events.map((event) => {
        const step = logic.step(snapshot, event);
        snapshot = step.snapshot;
        return step.effects;
      });
      this.#stepped = snapshot;
      await writer.write({ events, effects: steps.flat(), snapshot });
    }
    if (isEnded) await writer.end();
  }

  /** What the next controller finds. */
  replay(): Promise<Replayed> {
    return replayJournal(this.transport.journal(), this.#plan);
  }

  /** What all inputs come to, one after the other, without any snapshot. */
  fold(): Pick<Replayed, "snapshot" | "term" | keyof OpenEnds> {
    const { snapshot: first, effects } = controllerLogic.init(this.#plan);
    const ends = new OpenEndKeeper();
    ends.begun(effects);
    let snapshot = first;
    let term = 0;
    for (const { seq, data } of this.inputs) {
      const record = decodeRecord(seq, data);
      const steps = record.events.map((event) => {
        const step = controllerLogic.step(snapshot, event);
        snapshot = step.snapshot;
        return step.effects;
      });
      ends.recorded({ seq, wallMs: record.wallMs, told: record.told }, steps.flat());
      term = record.term;
    }
    return { snapshot, term, ...ends.get() };
  }

  /** Sequences of the records that are still there. */
  async left(): Promise<readonly number[]> {
    const seqs: number[] = [];
    for await (const { seq } of this.transport.journal().read(1)) seqs.push(seq);
    return seqs;
  }

  #writer(replayed: Replayed, rules: Rules): JournalWriter {
    const { transport } = this;
    const journal = transport.journal();
    return new JournalWriter({
      transport: {
        purge: async (stream, beforeSeq) => {
          await this.mishap("purge");
          await transport.purge(stream, beforeSeq);
        },
        journal: () => ({
          ...journal,
          append: async (data, expectedSeq, msgId, expectedId) => {
            await this.mishap("append");
            const seq = await journal.append(data, expectedSeq, msgId, expectedId);
            if (decodeRecord(seq, data).part) this.parts.push(seq);
            else {
              this.inputs.push({ seq, data });
              this.lived = this.#stepped;
            }
            await this.mishap("append.done");
            return seq;
          },
        }),
      },
      logger: silentLogger,
      clock,
      rules,
      replayed,
      incarnation: `i${++this.#terms}`,
      term: replayed.term + 1,
      wallOffsetMs: 1_700_000_000_000,
      told: { upTo: (seq) => this.toldUpTo(seq) },
      alarm: (detail) => this.alarms.push(detail),
      ...this.#given,
    });
  }
}
