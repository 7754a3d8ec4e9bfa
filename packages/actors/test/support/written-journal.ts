/** A journal that a controller's mind and its writer make of inputs, without the rest of a controller. */
import { silentLogger } from "@muster/base";
import { type ControllerEvent, type ControllerPlan, controllerLogic } from "@muster/machines";
import { createMemoryBroker, type MemoryBroker, type Transport } from "@muster/transport";
import { JournalWriter } from "../../src/controller/journal-writer.ts";
import { decodeRecord, OpenEndKeeper, type OpenEnds, type Replayed, replayJournal } from "../../src/index.ts";
import { clock } from "./environment.ts";

/** What may go wrong with what a writer asks of the broker; default nothing. */
export type Mishap = (call: "append" | "append.done" | "purge") => void;

/** A journal under test. */
export class WrittenJournal {
  readonly broker: MemoryBroker = createMemoryBroker();
  readonly transport: Transport = this.broker.connect("controller.controller.i1");
  /** Every record of inputs that was stored, whether or not it is still there. */
  readonly inputs: { readonly seq: number; readonly data: Uint8Array }[] = [];
  readonly parts: number[] = [];
  mishap: Mishap = () => {};
  readonly #plan: ControllerPlan;
  readonly #given: { readonly snapshotRecords: number; readonly partBytes?: number };
  #terms = 0;

  constructor(plan: ControllerPlan, given: { readonly snapshotRecords: number; readonly partBytes?: number }) {
    this.#plan = plan;
    this.#given = given;
  }

  /** One controller's time: it replays, begins a term, and takes batches of inputs until something goes wrong. */
  async reign(batches: readonly (readonly ControllerEvent[])[]): Promise<void> {
    const replayed = await this.replay();
    const writer = this.#writer(replayed);
    let { snapshot } = replayed;
    const elected: ControllerEvent = { type: "controller.elected", atMs: replayed.seq, term: replayed.term + 1 };
    for (const events of [[elected], ...batches]) {
      const steps = events.map((event) => {
        const step = controllerLogic.step(snapshot, event);
        snapshot = step.snapshot;
        return step.effects;
      });
      await writer.write({ events, effects: steps.flat(), snapshot });
    }
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
      ends.recorded({ seq, wallMs: record.wallMs }, steps.flat());
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

  #writer(replayed: Replayed): JournalWriter {
    const { transport } = this;
    const journal = transport.journal();
    return new JournalWriter({
      transport: {
        purge: async (stream, beforeSeq) => {
          this.mishap("purge");
          await transport.purge(stream, beforeSeq);
        },
        journal: () => ({
          ...journal,
          append: async (data, expectedSeq, msgId) => {
            this.mishap("append");
            const seq = await journal.append(data, expectedSeq, msgId);
            if (decodeRecord(seq, data).part) this.parts.push(seq);
            else this.inputs.push({ seq, data });
            this.mishap("append.done");
            return seq;
          },
        }),
      },
      logger: silentLogger,
      clock,
      replayed,
      incarnation: `i${++this.#terms}`,
      term: replayed.term + 1,
      wallOffsetMs: 1_700_000_000_000,
      ...this.#given,
    });
  }
}
