/** A reward whose program starts again while a sampler waits for it. */
import { createMemoryBroker } from "@muster/transport/internal";
import { expect, it, vi } from "vitest";
import type { Beats } from "../src/environment.ts";
import { rolloutRoleOn } from "../src/index.ts";
import { processesOn } from "./support/environment.ts";
import { ports } from "./support/roles.ts";
import { smallConfig } from "./support/small-config.ts";

it("is progress of its sampler, which does not look as if it hung", async () => {
  const waiting: (() => void)[] = [];
  const role = rolloutRoleOn({
    ...ports,
    reward: async () => ({ name: "slow", score: async () => 0, onStarting: (run) => void waiting.push(run) }),
  });
  const progress = vi.fn();
  const nothing = (): void => {};
  const beats: Beats = {
    progress,
    ...{ setVersion: nothing, setPhase: nothing, setTerm: nothing, setEpoch: nothing, setEngine: nothing },
    stop: async () => {},
  };
  const { environment } = processesOn(createMemoryBroker())();
  const work = role.create({
    ...{ environment, beats, term: () => 1, fail: nothing },
    identity: { job: "dates", role: "rollout", id: "rollout-0", incarnation: "i1" },
    ...({} as Pick<Parameters<typeof role.create>[0], "transport" | "outbox" | "enveloper">),
  });
  await work.open({ dataKey: new Uint8Array(32), config: smallConfig("/nowhere") });
  expect(progress).not.toHaveBeenCalled();
  for (const run of waiting) run();
  expect(progress).toHaveBeenCalledOnce();
  await work.close();
});
