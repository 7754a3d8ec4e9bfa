/** Stolen credentials: all that the broker lets a role say, and nothing else, in messages that their receivers can read. */
import { randomOf } from "@muster/base";
import { decodeMessage, encodeMessage, kindsSaidBy, type Message, messageTable } from "@muster/protocol";
import { messageKinds } from "@muster/protocol/internal";
import { describe, expect, it } from "vitest";
import { drawBody, factsOf } from "../../src/faults/draft.ts";
import { placesOf, stolenRoles, Thief } from "../../src/faults/thief.ts";
import { modelsOf } from "../support/models.ts";

describe("a draft", () => {
  it.each(messageKinds.filter((kind) => messageTable[kind].direction === "report"))("of %s fits its schema", (kind) => {
    const { body: schema } = messageTable[kind];
    const facts = factsOf([{ leaseId: "1-9", step: 3, digest: "d", ids: ["rollout-1"] }]);
    const drawn = Array.from({ length: 20 }, (_, seed) => drawBody(schema, facts, randomOf(seed, 1)));
    expect(drawn.filter((body) => body !== null).length).toBeGreaterThan(10);
    for (const body of drawn) expect(body === null || schema.safeParse(body).success).toBe(true);
    expect(new Set(drawn.map((body) => JSON.stringify(body))).size).toBeGreaterThan(
      Object.keys(schema.shape).length > 0 ? 1 : 0,
    );
  });

  it("takes facts of the same name, wherever they were said", () => {
    const facts = factsOf([{ a: [{ leaseId: "1-9" }], step: 3 }, { leaseId: "1-7" }]);
    expect(facts).toEqual(
      new Map<string, unknown[]>([
        ["leaseId", ["1-9", "1-7"]],
        ["step", [3]],
      ]),
    );
  });
});

describe("stolen credentials", () => {
  it.each(stolenRoles)(
    "of %s open the reports and heartbeats of that role under their own id, and no other place",
    (role) => {
      const places = placesOf("test", role, `${role}-1`, [`${role}-1`, "policy-7", "controller"]);
      const expected =
        role === "watcher"
          ? []
          : kindsSaidBy(role, "report").map((kind) => `muster.test.reports.${role}.${role}-1.${kind}`);
      const subjects = new Set(places);
      const heartbeat = role === "watcher" ? [] : [`muster.test.hb.${role}.${role}-1`];
      expect([...subjects].sort()).toEqual([...expected, ...heartbeat].sort());
    },
  );

  it("say many things as themselves, as strangers and as others, which can be read", async () => {
    const { network, world, process, runFor } = modelsOf();
    const sender = await network.connect(process("rollout-1", "rollout"));
    const truth = {
      ...{ v: 1, id: "r1", kind: "replica.left", job: "test", from: "rollout-1", role: "rollout", incarnation: "i1" },
      ...{ seq: 7, term: 1, epoch: 1, deadlineMs: null, sentAtMs: 0, body: { reason: "so" } },
    } as Message<"replica.left">;
    const other = { ...truth, id: "p1", from: "policy-1", role: "policy", incarnation: "i2" } as const;
    for (const { from, role, ...message } of [truth, other]) {
      const data = encodeMessage({ from, role, ...message } as Message);
      void sender.publish(`muster.test.reports.${role}.${from}.replica.left`, data, { msgId: message.id });
    }
    await runFor(100);
    const thief = new Thief(network, world.random(1));
    const said = Array.from({ length: 200 }, () => thief.say("rollout")).flatMap((one) => one ?? []);
    expect(said.length).toBeGreaterThan(150);
    expect(new Set(said.map(({ kind }) => kind)).size).toBeGreaterThan(8);
    expect(new Set(said.map(({ as }) => as)).size).toBeGreaterThan(3);
    expect(said.every(({ from }) => from.startsWith("rollout-"))).toBe(true);
    expect(thief.say("watcher")).toBeNull();
    const heard: string[] = [];
    await network.store.tail({
      stream: "reports",
      fromSeq: 3,
      handle: ({ data }) => heard.push(decodeMessage(data).from),
    });
    await runFor(100);
    expect(heard.length).toBeGreaterThan(100);
  });
});
