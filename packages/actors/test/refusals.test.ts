/** Whoever says something that the controller does not take hears so, at a bounded rate. */
import { type Body, pack, type RefusalReason } from "@muster/protocol";
import { manualClock } from "@muster/runtime/internal";
import { beforeEach, describe, expect, it } from "vitest";
import { refusalDesk } from "../src/controller/refusals.ts";

const subject = "muster.demo.reports.operator.muster.job.stop";

describe("the desk of refusals", () => {
  const clock = manualClock();
  let told: Body<"message.refused">[];
  let alarms: string[];
  let refuse: (patch?: {
    data?: Uint8Array;
    seq?: number;
    subject?: string;
    reason?: RefusalReason;
    detail?: string;
  }) => void;
  beforeEach(() => {
    told = [];
    alarms = [];
    const desk = refusalDesk({
      clock,
      tell: (body) => told.push(body),
      alarm: (name, detail) => alarms.push(`${name}: ${detail}`),
      refuse: () => {},
    });
    refuse = (patch) => desk({ subject, data: new Uint8Array(), reason: "malformed", detail: "why", ...patch });
  });

  it("names message, command and sender as far as they can be read", () => {
    const id = "i-9.4";
    refuse({ data: pack({ v: 1, id, kind: "replica.drain", body: { id: 7, commandId: "c-1" } }) });
    const sender = "operator muster";
    expect(told).toEqual([
      { id, said: "replica.drain", commandId: "c-1", sender, subject, code: "malformed", detail: "why", unsaid: 0 },
    ]);
    refuse({ data: Uint8Array.of(0xc1), subject: "muster.demo.elsewhere" });
    expect(told[1]).toEqual({
      ...{ sender: "", subject: "muster.demo.elsewhere", code: "malformed", detail: "why", unsaid: 0 },
    });
  });

  it("says of a subject no more than fits, however long its words are", () => {
    const id = "x".repeat(300);
    refuse({ subject: `muster.demo.reports.operator.${id}.job.stop` });
    expect(told[0]?.sender).toBe(`operator ${id}`.slice(0, 128));
    expect(told[0]?.subject).toHaveLength(256);
    refuse({ detail: "y".repeat(5_000) });
    expect(told[1]?.detail).toHaveLength(1_000);
  });

  it("names a command that came as its body alone by its place in the stream, whether it can be read or not", () => {
    const json = (text: string): Uint8Array => new TextEncoder().encode(text);
    refuse({ data: json('{"reson":"enough","commandId":"c-2"}'), seq: 41 });
    refuse({ data: json("{reason: enough}"), seq: 42 });
    expect(told).toMatchObject([
      { id: "json.muster.41", said: "job.stop", commandId: "c-2", sender: "operator muster" },
      { id: "json.muster.42", said: "job.stop", sender: "operator muster" },
    ]);
  });

  it("answers a flood at a bounded rate, says how many had no answer, and raises one alarm a minute", () => {
    for (let i = 0; i < 75_000; i++) refuse();
    expect(told).toHaveLength(16);
    expect(alarms).toEqual(["refused: a message of operator muster is refused (malformed): why"]);
    clock.advance(1_000);
    refuse();
    expect(told.at(-1)?.unsaid).toBe(75_000 - 16);
    refuse();
    expect(told).toHaveLength(17);
    clock.advance(60_000);
    refuse();
    expect(alarms).toHaveLength(2);
    expect(alarms[1]).toContain("75002 refused messages of this role");
    clock.advance(30_000);
    refuse();
    clock.advance(30_000);
    refuse();
    expect(alarms[2]).toContain("; 2 refused messages of this role");
  });

  it("answers an operator while another role floods", () => {
    for (let i = 0; i < 1_000; i++) refuse({ subject: `muster.demo.reports.rollout.r${i}.mesh.built` });
    const before = told.length;
    refuse();
    expect(told.slice(before).map(({ sender }) => sender)).toEqual(["operator muster"]);
  });
});

describe("processes of another release", () => {
  it("are told to the operator once each, 256 of them at most, and each that asks to be admitted is answered every time", () => {
    const alarms: string[] = [];
    const refused: string[] = [];
    const desk = refusalDesk({
      clock: manualClock(),
      tell: () => {},
      alarm: (name, detail) => alarms.push(`${name}: ${detail}`),
      refuse: ({ id }) => refused.push(id),
    });
    const say = (id: string, kind: string) =>
      desk({
        ...{ subject: `muster.demo.reports.rollout.${id}.${kind}`, data: new Uint8Array() },
        ...{ reason: "other_version", detail: "version 2, not 1" },
      });
    for (let i = 0; i < 300; i++) for (let time = 0; time < 2; time++) say(`r${i}`, "replica.register");
    say("r0", "mesh.built");
    expect(alarms).toHaveLength(256);
    expect(alarms[0]).toBe("version: rollout r0 is not admitted: version 2, not 1");
    expect(refused).toHaveLength(600);
  });
});
