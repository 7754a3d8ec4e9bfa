import { expect, test } from "vitest";
import { createEnveloper, decodeMessage, encodeMessage } from "../src/index.ts";

const identity = { job: "dates", id: "rollout-0", role: "rollout", incarnation: "a1" } as const;

test("messages are numbered from 1 and carry what was set last", () => {
  const enveloper = createEnveloper({ ...identity, wallMs: () => 1234 });
  const first = enveloper.stamp("replica.draining", { reason: "asked" });
  enveloper.setTerm(3);
  enveloper.setEpoch(7);
  const second = enveloper.stamp("replica.left", { reason: "done" }, { deadlineMs: 50, cause: "x.1", id: "again" });
  expect(first).toMatchObject({ id: "a1.1", seq: 1, term: 0, epoch: 0, deadlineMs: null, sentAtMs: 1234 });
  expect(second).toMatchObject({ id: "again", seq: 2, term: 3, epoch: 7, deadlineMs: 50, cause: "x.1" });
  expect("cause" in first).toBe(false);
});

test("what it makes is accepted by the codec", () => {
  const message = createEnveloper({ ...identity, wallMs: Date.now }).stamp("mesh.built", { epoch: 2 });
  expect(decodeMessage(encodeMessage(message))).toEqual(message);
});
