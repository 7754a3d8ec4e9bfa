/** What a controller does by the clock, and how much of anything it takes at a time. */
import type { ConsumeOptions, Journal, Transport } from "@muster/transport";
import { describe, expect, it } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
import { settled, startLone } from "./support/lone-controller.ts";

/** Overrides that count their calls. */
function counting() {
  const calls = { alive: 0, status: 0, flush: 0, usage: 0 };
  const overrides = (inner: Transport): Partial<Transport> => ({
    state: () => {
      const state = inner.state();
      const put: typeof state.put = (key, value) => {
        if (key === "alive") calls.alive += 1;
        if (key === "status") calls.status += 1;
        return state.put(key, value);
      };
      return { ...state, put };
    },
    flush: () => {
      calls.flush += 1;
      return inner.flush();
    },
    usage: (stream) => {
      if (stream === "groups") calls.usage += 1;
      return inner.usage(stream);
    },
  });
  return { calls, overrides };
}

/** A journal that takes the first record, and no further one before it is told to. */
function held() {
  let open = (): void => {};
  const isOpen = new Promise<void>((resolve) => {
    open = resolve;
  });
  let appends = 0;
  const overrides = (inner: Transport): Partial<Transport> => ({
    journal: () => {
      const journal = inner.journal();
      const append: Journal["append"] = async (...given) => {
        if (++appends > 1) await isOpen;
        return await journal.append(...given);
      };
      return { ...journal, append };
    },
  });
  return { overrides, open: () => open() };
}

describe("by its clock a controller", () => {
  it("shows that it lives, and its job, and asks how long the broker takes, once a second; and how full the streams are every two", async () => {
    const { calls, overrides } = counting();
    const { pass, controller } = await startLone({ overrides });
    await pass(10_000);
    expect(calls).toEqual({ alive: 10, status: 10, flush: 10, usage: 5 });
    controller.abort("over");
    await settled();
  });

  it("does none of that while it has ended", async () => {
    const { calls, overrides } = counting();
    const { pass, controller, end } = await startLone({ overrides });
    await pass(3_000);
    controller.abort("over");
    await settled();
    expect(end()).toEqual({ outcome: "aborted", reason: "over" });
    // Its last sign and status are those that say how it ended.
    const last = { ...calls };
    expect(last).toEqual({ alive: 4, status: 4, flush: 3, usage: 1 });
    await pass(5_000);
    expect(calls).toEqual(last);
  });
});

describe("at a time a controller", () => {
  it("has at most 1,024 reports that are not in the journal yet, and at most 256 of them go into one record", async () => {
    const { overrides, open } = held();
    let came = 0;
    const both = (inner: Transport): Partial<Transport> => ({
      ...overrides(inner),
      consume: (options: ConsumeOptions) =>
        inner.consume({
          ...options,
          handle: (delivery) => {
            came += 1;
            options.handle(delivery);
          },
        }),
    });
    const { broker, controller, voice } = await startLone({ overrides: both });
    const voices = Array.from({ length: 1_100 }, (_, i) => voice(`rollout-${i}`));
    for (const each of voices) await each.register();
    await settled();
    expect(came).toBe(1_024);
    open();
    for (let turn = 0; turn < 20; turn++) await settled();
    expect(came).toBe(1_100);
    const sizes: number[] = [];
    for await (const { seq, data } of broker.connect("w.w.1").journal().read(1))
      sizes.push(decodeRecord(seq, data).events.length);
    expect(Math.max(...sizes)).toBe(256);
    controller.abort("over");
    await settled();
  });

  it("stamps its term on all that it says", async () => {
    const first = await startLone();
    first.controller.abort("over");
    await settled();
    const { events, controller } = await startLone({ after: first });
    const terms = (all: readonly { readonly kind: string; readonly term: number }[]) =>
      all.flatMap(({ kind, term }) => (kind === "job.started" ? [term] : []));
    expect(terms(events)).toEqual([1, 2]);
    controller.abort("over");
    await settled();
  });
});
