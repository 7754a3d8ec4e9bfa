/** The broker may deliver an order again after newer ones: weights never go back (S9). */
import { policyLogic, rolloutLogic } from "@muster/machines";
import { describe, expect, it } from "vitest";
import { plan } from "./plans.ts";
import { eventOf, Replica } from "./replica.ts";

const timing = { ...plan.timing, initializeMs: 9, registerMs: 20_000 };

describe("asked for older weights", () => {
  it("a rollout replica stays with what it has, or pulls", () => {
    const replica = new Replica(rolloutLogic, { timing, chunkGroups: 2, leasesMax: 2 });
    const pull = (lineage: number, version: number): object => ({
      type: "weights.pull",
      body: { lineage, version, sections: [], holders: [] },
    });
    const expectNothing = (): void => {
      for (const order of [pull(1, 6), pull(0, 9)])
        expect(replica.hear(order)).toMatchObject([{ type: "drop", reason: "older weights" }]);
    };
    replica.hear(pull(1, 7));
    expectNothing();
    replica.hear({
      type: "weights.pulled",
      lineage: 1,
      version: 7,
      sections: [],
      addresses: [],
      bytes: 1,
      durationMs: 1,
    });
    expect(replica.value).toMatchObject({ weights: "waiting" });
    expectNothing();
    expect(replica.hear(pull(2, 3))).toMatchObject([{ type: "weights.pull" }]);
  });

  it("a policy replica stays with what it has, makes or pulls", () => {
    const older = [
      { type: "weights.pull", body: { lineage: 1, version: 6, sections: [], holders: [] } },
      { type: "weights.pull", body: { lineage: 0, version: 9, sections: [], holders: [] } },
      { type: "weights.initialize", body: { lineage: 0, version: 0, source: { kind: "seed", seed: 1 } } },
    ];
    const replica = new Replica(policyLogic, { timing });
    const expectNothing = (): void => {
      const { snapshot } = replica;
      for (const order of older) {
        expect(replica.hear(order)).toMatchObject([{ type: "drop", reason: "older weights" }]);
        expect(replica.snapshot).toEqual(snapshot);
      }
    };
    replica.hear({ type: "weights.initialize", body: { lineage: 1, version: 7, source: { kind: "seed", seed: 1 } } });
    expectNothing();
    const body = { lineage: 1, version: 7, sections: [], holders: [] };
    replica.hear({ type: "weights.pull", body });
    expectNothing();
    replica.hear({ type: "weights.pulled", ...body, addresses: [], bytes: 1, durationMs: 1 });
    expectNothing();
    replica.hear(eventOf("policy", "mesh.build"));
    expect(replica.value).toBe("building");
    expectNothing();
  });
});
