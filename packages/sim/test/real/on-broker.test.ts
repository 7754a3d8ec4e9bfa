/**
 * The simulator's jobs, faults and checkers with production's transport on a real nats-server. A run takes as long as its job: two at a time, 20 s
 * on a quiet machine.
 */
import { findNatsServer, waitFor } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { RealBroker } from "../../src/real/real-broker.ts";
import { realScenario, runOnBroker } from "../../src/real/run-on-broker.ts";
import type { Profile } from "../../src/seed/draw-scenario.ts";

const natsServer = findNatsServer();

/** Four times as fast again as `muster sim --real-broker`: time enough for what the seeds below let go wrong. */
const haste = 20;

const seeds: readonly { readonly profile: Profile; readonly seed: number; readonly faults: readonly string[] }[] = [
  {
    profile: "broker",
    seed: 250,
    faults: ["broker-restart", "broker-stall", "disconnect", "partition-down", "partition-up", "suffix-loss-groups"],
  },
  { profile: "swarm", seed: 165, faults: ["kill-all", "failpoint-error"] },
];

describe.concurrent("a seed of the simulator on a real broker", { timeout: 120_000 }, () => {
  it.each(seeds)(
    "holds every invariant under its faults, and ends with the weights of the quiet run: $profile $seed",
    async ({ profile, seed, faults }) => {
      const { result, isCompared } = await runOnBroker(realScenario(seed, profile, haste), natsServer);
      expect(result.violations, result.lines.join("\n")).toEqual([]);
      expect(result.end).toMatchObject({ outcome: "done", ledger: { pending: 0 } });
      expect([...result.faults.keys()]).toEqual(expect.arrayContaining([...faults]));
      expect(isCompared).toBe(true);
    },
  );

  it("loses what a stream has stored last when it gets back the files of before, and gives the places again", async () => {
    const failures: unknown[] = [];
    const onFailed = (error: unknown): void => void failures.push(error);
    const broker = await RealBroker.start({ natsServer, job: "sim", idOf: () => "", onFailed });
    try {
      const transport = await broker.connect("controller.controller.i1");
      const journal = transport.journal();
      const record = (text: string): Uint8Array => Buffer.from(text);
      await journal.append(record("kept"), 0, "i1.1");
      const putBack = await broker.keep("journal");
      await journal.append(record("lost"), 1, "i1.2");
      broker.kill();
      await waitFor(() => !transport.isConnected(), { what: "the end of the broker" });
      putBack();
      broker.restart();
      await waitFor(() => transport.isConnected(), { what: "the broker", timeoutMs: 20_000 });
      expect(await journal.head()).toBe(1);
      expect(await journal.append(record("other"), 1, "i2.2")).toBe(2);
      await transport.close();
    } finally {
      await broker.close();
    }
    expect(failures).toEqual([]);
  });
});
