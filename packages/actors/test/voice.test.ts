/** What the controller says, and what becomes of that which no receiver would take. */
import { defineErrors, silentLogger } from "@muster/base";
import type { AnnounceEffect, CommandEffect } from "@muster/machines/controller";
import { createEnveloper } from "@muster/protocol";
import type { OutboxItem } from "@muster/runtime";
import { beforeEach, describe, expect, it } from "vitest";
import { Voice } from "../src/controller/voice.ts";

const { MessageVoiceTestTooLarge } = defineErrors("MUSTER_ERR", { MessageVoiceTestTooLarge: { message: "too large" } });
const identity = { job: "j", id: "controller", role: "controller", incarnation: "k1" } as const;

describe("the voice of a controller", () => {
  let offered: OutboxItem[];
  let alarms: string[];
  let told: number;
  let room: number | null;
  let offer: (item: OutboxItem) => boolean;
  let voice: Voice;
  beforeEach(() => {
    offered = [];
    alarms = [];
    told = 0;
    room = null;
    offer = (item) => offered.push(item) > 0;
    const enveloper = createEnveloper({ ...identity, wallMs: () => 0 });
    const outbox = { offer: (item: OutboxItem) => offer(item), room: () => room } as never;
    voice = new Voice({ job: "j", enveloper, outbox, logger: silentLogger, alarm: (detail) => alarms.push(detail) });
  });
  const fact = (body: object, kind = "step.skipped"): void =>
    voice.announce({ type: "announce", kind, body } as unknown as AnnounceEffect, "id-1", () => {
      told += 1;
    });
  const sound = { step: 1, version: 1, reason: "r" };
  const order = {
    to: "p0",
    incarnation: "i1",
    kind: "mesh.build",
    body: { epoch: 1, members: [{ id: "p0", incarnation: "i1" }] },
  };

  it("says a fact under its own id, which counts as told when it is stored", () => {
    fact(sound);
    expect(offered).toMatchObject([{ lane: "events", message: { id: "id-1", kind: "step.skipped" } }]);
    expect(told).toBe(0);
    offered[0]?.onStored?.({} as never);
    expect(told).toBe(1);
  });

  it("says a fact again, as an answer, without a place among the facts that wait to be told", () => {
    const body = { epoch: 0, iteration: 1, phase: 0, arrived: [0], missing: [], shares: [] };
    const end = { ...body, outcome: "whole", reason: "r", waitedMs: 1, coverage: 1 } as const;
    voice.answer({ type: "answer", kind: "barrier.ended", body: end }, "id-2");
    expect(offered).toMatchObject([{ lane: "answers", message: { id: "id-2", kind: "barrier.ended", body: end } }]);
    expect(offered[0]?.subject).toBe("muster.j.events.barrier.ended");
  });

  it("speaks in the epoch that it announces", () => {
    fact({ epoch: 7, members: [] }, "mesh.changed");
    fact(sound);
    expect(offered.map(({ message: { epoch } }) => epoch)).toEqual([7, 7]);
  });

  it("tells the operator once per kind of what no receiver would take; a fact like that counts as told", () => {
    for (let i = 0; i < 3; i++) fact({ ...sound, step: -1 });
    fact({ epoch: -1, members: [] }, "mesh.changed");
    expect(offered).toEqual([]);
    expect(told).toBe(4);
    expect(alarms).toEqual([
      expect.stringMatching(/^step\.skipped could not be said, no receiver would take it: step\.skipped\.step: /),
      expect.stringMatching(/^mesh\.changed could not be said/),
    ]);
  });

  it("tells the operator of what is too large, too, and throws what is a fault of its own", () => {
    offer = () => {
      throw MessageVoiceTestTooLarge({});
    };
    fact(sound);
    expect([told, alarms]).toEqual([1, ["step.skipped could not be said, no receiver would take it: too large"]]);
    offer = () => {
      throw new Error("a fault");
    };
    expect(() => fact(sound)).toThrow("a fault");
  });

  it("leaves an order aside while there is no room for it", () => {
    voice.aside({ type: "command", ...order } as unknown as CommandEffect);
    expect(offered).toHaveLength(1);
    room = 1;
    voice.aside({ type: "command", ...order } as unknown as CommandEffect);
    expect(offered).toHaveLength(1);
    expect(offered[0]?.message).toMatchObject({ kind: "mesh.build", to: "i1" });
  });
});
