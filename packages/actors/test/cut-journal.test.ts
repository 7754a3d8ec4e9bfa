/** A controller stands still while its broker loses the end of the journal, and another one writes over it. */
import { waitFor } from "@muster/testkit";
import type { Delivery, Journal, Transport } from "@muster/transport";
import { afterEach, expect, it, vi } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let job: SmallJob;
let older: Standing;
/** Lets the younger one write on. */
let isFree = false;
afterEach(async () => {
  isFree = true;
  older.go();
  await job.close();
});

/** The connection of a controller whose process can stand still: nothing goes out and nothing comes in until it goes on. */
class Standing {
  /** What waits for the process to go on. */
  readonly #held: (() => void)[] = [];
  /** Sequence that the record expects which was on its way when the process stood still. */
  expectedSeq: number | null = null;
  /** Reports that it acknowledged after it had stood still. */
  acknowledged = 0;
  #state: "running" | "standing at the next record" | "standing" | "after" = "running";
  readonly #mayAppend: (expectedSeq: number) => boolean;

  /** `mayAppend` holds records of this controller back, as a slow network does. */
  constructor(mayAppend: (expectedSeq: number) => boolean = () => true) {
    this.#mayAppend = mayAppend;
  }

  /** Stands still as soon as it has a record on its way. */
  stop(): void {
    this.#state = "standing at the next record";
  }

  go(): void {
    this.#state = "after";
    for (const run of this.#held.splice(0)) run();
  }

  wire(transport: Transport): Transport {
    const journal = transport.journal();
    const append: Journal["append"] = async (data, expectedSeq, ...ids) => {
      if (this.#state === "standing at the next record") {
        this.#state = "standing";
        this.expectedSeq = expectedSeq;
      }
      await this.#running();
      await waitFor(() => this.#mayAppend(expectedSeq), { what: "leave to append", timeoutMs: 30_000 });
      return await journal.append(data, expectedSeq, ...ids);
    };
    const own: Partial<Transport> = {
      journal: () => ({ ...journal, append }),
      publish: async (...given) => {
        await this.#running();
        return await transport.publish(...given);
      },
      consume: (options) =>
        transport.consume({
          ...options,
          handle: (delivery) => void this.#running(() => options.handle(this.#counted(delivery))),
        }),
    };
    return new Proxy(transport, {
      get(target, name) {
        const value: unknown = Reflect.get(own, name) ?? Reflect.get(target, name);
        return typeof value === "function" && !(name in own) ? value.bind(target) : value;
      },
    });
  }

  #counted(delivery: Delivery): Delivery {
    const ack = (): void => {
      if (this.#state === "after") this.acknowledged += 1;
      delivery.ack();
    };
    return { ...delivery, ack };
  }

  /** Done at once, or when the process goes on. */
  #running(run: () => void = () => {}): Promise<void> {
    if (this.#state !== "standing") {
      run();
      return Promise.resolve();
    }
    return new Promise((resolve) =>
      this.#held.push(() => {
        run();
        resolve();
      }),
    );
  }
}

it("a controller that goes on behind another's records of the same number is fenced, and acknowledges no report", async () => {
  older = new Standing();
  // Of the younger one exactly so many records are stored that the older one's next would have its place.
  const younger = new Standing((seq) => older.expectedSeq === null || seq < older.expectedSeq || isFree);
  const lives: Standing[] = [older, younger];
  job = await openJob([], ({ role }, transport) => {
    const isController = role === "controller" && lives.length > 0;
    return isController ? (lives.shift()?.wire(transport) ?? transport) : transport;
  });
  const first = await job.startController();
  job.startTeam({ policy: 2, rollout: 2 });
  await job.when("step.committed", ({ step }) => step === 1);
  older.stop();
  await waitFor(() => older.expectedSeq !== null, { what: "a record on its way", timeoutMs: 20_000 });
  const lost = loseSome(job);
  expect(lost).toBeGreaterThan(0);

  const second = await job.startController();
  const journal = job.transport.journal();
  await waitFor(async () => (await journal.head()) === older.expectedSeq, {
    what: "as many records as the older one knows",
    timeoutMs: 20_000,
  });
  older.go();
  const end = await endOf(first);
  isFree = true;
  expect(end).toMatchObject({ outcome: "fenced", reason: expect.stringContaining("written by another controller") });
  expect(older.acknowledged).toBe(0);

  // The job is the younger one's, which the older one has left nothing behind that it would have to pass over.
  const { expectedSeq } = older;
  await waitFor(async () => (await journal.head()) > (expectedSeq ?? 0), { what: "a record of the younger one" });
  for await (const { seq, data } of journal.read((expectedSeq ?? 0) + 1)) expect(decodeRecord(seq, data).term).toBe(2);
  expect(second.snapshot().context.state.term).toBe(2);
});

/** The last records of the journal, at least two, and not all. */
function loseSome({ loseJournal }: SmallJob): number {
  let lost = 0;
  for (let forMs = 1; lost < 2 && forMs < 600_000; forMs += 5) lost += loseJournal(forMs);
  return lost;
}
