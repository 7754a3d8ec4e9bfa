import {
  type AnyMessage,
  encodeMessage,
  type Identity,
  type Kind,
  kindsSaidBy,
  maySay,
  messageTable,
  pack,
  payloadBytesMax,
  roles,
  subjectsOf,
} from "@muster/protocol";
import { messageKinds } from "@muster/protocol/internal";
import type { Delivery } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { createIngress, type Ingress, type IngressOptions } from "../src/index.ts";
import { manualClock } from "../src/internal.ts";
import { countingMetrics, recordingLogger, speaker, turns } from "./helpers.ts";

const subjects = subjectsOf("dates");

/** A delivery whose fate can be read. */
function deliveryOf(subject: string, data: Uint8Array): { readonly delivery: Delivery; readonly fate: string[] } {
  const fate: string[] = [];
  const delivery: Delivery = {
    subject,
    data,
    seq: 1,
    redeliveries: 0,
    ack: () => void fate.push("ack"),
    nak: (delayMs) => void fate.push(`nak ${delayMs}`),
    term: () => void fate.push("term"),
  };
  return { delivery, fate };
}

describe("the ingress", () => {
  let got: { readonly message: AnyMessage; readonly settle: () => void }[];
  let room: boolean;
  let clock: ReturnType<typeof manualClock>;
  let counted: ReturnType<typeof countingMetrics>;
  let recorded: ReturnType<typeof recordingLogger>;
  beforeEach(() => {
    got = [];
    room = true;
    clock = manualClock();
    counted = countingMetrics();
    recorded = recordingLogger();
  });
  const ingress = (options: Partial<IngressOptions> = {}): Ingress =>
    createIngress({
      job: "dates",
      self: "controller",
      clock,
      logger: recorded.logger,
      metrics: counted.metrics,
      accept: (message, settle) => room && got.push({ message, settle }) > 0,
      ...options,
    });
  const report = (from = speaker()) => {
    const message = from.stamp("replica.left", { reason: "done" });
    return {
      message,
      ...deliveryOf(subjects.report(message.role, message.from, message.kind), encodeMessage(message)),
    };
  };
  const command = (term: number, { self = "rollout-0", ...identity }: Partial<Identity> & { self?: string } = {}) => {
    const controller = speaker({ id: "controller", role: "controller", incarnation: "c1", ...identity });
    controller.setTerm(term);
    const message = controller.stamp("replica.stop", { reason: "done" });
    return deliveryOf(subjects.command(self, message.kind), encodeMessage(message));
  };
  const refused = (reason: string): number => counted.total("muster_mailbox_refused_total", { reason });
  const stale = (reason: string): number => counted.total("muster_mailbox_stale_total", { reason });

  test("hands a message over and acknowledges it only when it is settled", () => {
    const { delivery, fate, message } = report();
    ingress().handle(delivery);
    expect(got.map((entry) => entry.message)).toEqual([message]);
    expect(fate).toEqual([]);
    got[0]?.settle();
    expect(fate).toEqual(["ack"]);
  });

  test("puts off what finds no room and takes it when it comes again", () => {
    const way = ingress({ retryMs: 70 });
    const first = report();
    room = false;
    way.handle(first.delivery);
    room = true;
    way.handle(first.delivery);
    expect(first.fate).toEqual(["nak 70"]);
    expect(got).toHaveLength(1);
  });

  test("does not acknowledge a duplicate before the first is settled, so that a crash in between loses nothing", () => {
    const way = ingress({ retryMs: 70 });
    const first = report();
    const again = deliveryOf(first.delivery.subject, first.delivery.data);
    way.handle(first.delivery);
    way.handle(again.delivery);
    expect(again.fate).toEqual(["nak 70"]);
    got[0]?.settle();
    way.handle(again.delivery);
    expect(again.fate).toEqual(["nak 70", "ack"]);
    expect([got.length, stale("duplicate")]).toEqual([1, 1]);
  });

  test("hands over again what is to be answered again, once the first is settled", () => {
    const way = ingress({ retryMs: 70, isAnsweredAgain: ({ kind }) => kind === "replica.left" });
    const first = report();
    const again = deliveryOf(first.delivery.subject, first.delivery.data);
    way.handle(first.delivery);
    way.handle(again.delivery);
    got[0]?.settle();
    way.handle(again.delivery);
    got[1]?.settle();
    expect(again.fate).toEqual(["nak 70", "ack"]);
    expect(got.map(({ message }) => message)).toEqual([first.message, first.message]);
  });

  test("takes the same number from another life or another sender", () => {
    const way = ingress();
    for (const who of [{}, { incarnation: "a2" }, { id: "rollout-1" }]) way.handle(report(speaker(who)).delivery);
    expect(got).toHaveLength(3);
  });

  test("takes each message once, however deliveries are shuffled and repeated", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 19 }), { maxLength: 200 }), (order) => {
        got = [];
        const from = speaker();
        const deliveries = Array.from({ length: 20 }, () => report(from));
        const way = ingress();
        for (const [at, index] of order.entries()) {
          way.handle(deliveries[index]?.delivery as Delivery);
          if (at % 3 === 0) got.at(-1)?.settle();
        }
        expect(got.map(({ message }) => message.seq).sort()).toEqual(
          [...new Set(order)].map((index) => index + 1).sort(),
        );
      }),
      { seed: 7, numRuns: 100 },
    );
  });

  test("drops commands of a term that is over and remembers the newest", () => {
    const way = ingress({ self: "rollout-0" });
    const fates = [3, 2, 4, 3].map((term, index) => {
      const { delivery, fate } = command(term, { incarnation: `c${index}` });
      way.handle(delivery);
      return fate.join();
    });
    expect(fates).toEqual(["", "ack", "", "ack"]);
    expect([way.term(), got.length, stale("term")]).toEqual([4, 2, 2]);
  });

  test("does not hold an old term against reports", () => {
    const way = ingress();
    const ahead = speaker();
    ahead.setTerm(9);
    way.handle(report(ahead).delivery);
    way.handle(report(speaker({ id: "rollout-1" })).delivery);
    expect([got.length, way.term()]).toEqual([2, 0]);
  });

  const good = speaker({ id: "policy-0", role: "policy" }).stamp("mesh.built", { epoch: 1 });
  const where = subjects.report("policy", "policy-0", "mesh.built");
  test.each<[string, string, string, Uint8Array]>([
    ["random bytes", "malformed", where, Uint8Array.from({ length: 40 }, (_, i) => (i * 37) & 255)],
    ["no bytes", "malformed", where, new Uint8Array()],
    ["a body of another shape", "malformed", where, pack({ ...good, body: { epoch: -1 } })],
    ["a field too many", "malformed", where, pack({ ...good, admin: true })],
    ["another version", "other_version", where, pack({ ...good, v: 2, extra: "field" })],
    ["an unknown kind", "unknown_kind", where, pack({ ...good, kind: "mesh.destroyed" })],
    ["a kind that is an object property", "unknown_kind", where, pack({ ...good, kind: "constructor" })],
    ["a message that is too large", "too_large", where, new Uint8Array(payloadBytesMax + 1)],
    ["another job", "wrong_job", where, pack({ ...good, job: "other" })],
    ["another job's subject", "spoofed", where.replace("dates", "other"), pack(good)],
    ["the id of somebody else", "spoofed", where, pack({ ...good, from: "policy-1" })],
    ["the role of somebody else", "spoofed", where, pack({ ...good, role: "rollout" })],
    [
      "a kind that the subject does not name",
      "spoofed",
      subjects.report("policy", "policy-0", "mesh.failed"),
      pack(good),
    ],
    ["a report on a command subject", "spoofed", subjects.command("controller", "mesh.built"), pack(good)],
    ["a subject of no known place", "spoofed", "muster.dates.elsewhere.mesh.built", pack(good)],
  ])("refuses %s for good", (_, reason, subject, data) => {
    const { delivery, fate } = deliveryOf(subject, data);
    ingress().handle(delivery);
    expect([fate, got, refused(reason)]).toEqual([["term"], [], 1]);
  });

  test("refuses commands that the controller did not say, or said to somebody else", () => {
    const way = ingress({ self: "rollout-0" });
    const forged = command(1, { role: "policy", id: "policy-0" });
    const misdirected = command(1, { self: "rollout-1" });
    way.handle(forged.delivery);
    way.handle(misdirected.delivery);
    expect([forged.fate, misdirected.fate]).toEqual([["term"], ["term"]]);
    expect([refused("wrong_role"), refused("spoofed"), way.term()]).toEqual([1, 1, 0]);
  });

  test.each(roles)("looks at the body of what role %s may say by the table, and refuses every other kind", (role) => {
    const id = role === "controller" ? "controller" : `${role}-0`;
    const way = ingress({ self: "controller" });
    const subjectOf = (kind: Kind): string => {
      const { direction } = messageTable[kind];
      if (direction === "heartbeat") return subjects.heartbeat(role, id);
      if (direction === "probe") return subjects.probe("controller");
      if (direction === "command") return subjects.command("controller", kind);
      return direction === "event" ? subjects.event(kind) : subjects.report(role, id, kind);
    };
    const kinds = messageKinds.filter((kind) => messageTable[kind].direction !== "groups");
    for (const kind of kinds) {
      const message = { ...speaker({ id, role }).stamp("replica.left", { reason: "" }), kind, body: { nothing: 1 } };
      way.handle(deliveryOf(subjectOf(kind), pack(message)).delivery);
    }
    const mine = kindsSaidBy(role).filter((kind) => kinds.includes(kind));
    expect(mine).toEqual(kinds.filter((kind) => maySay(role, kind)));
    expect([refused("malformed"), refused("wrong_role")]).toEqual([mine.length, kinds.length - mine.length]);
  });

  test("refuses by its size alone what is larger than its kind may be", () => {
    const large = new Uint8Array(64 * 1024 + 1);
    const way = ingress();
    const fates = ["mesh.built", "groups.completed"].map((kind) => {
      const { delivery, fate } = deliveryOf(subjects.report("policy", "policy-0", kind), large);
      way.handle(delivery);
      return fate.join();
    });
    way.handleCore(subjects.heartbeat("policy", "policy-0"), large);
    expect(fates).toEqual(["term", "term"]);
    expect([refused("too_large"), refused("malformed"), got]).toEqual([2, 1, []]);
  });

  describe("an operator's body alone", () => {
    const shell = subjects.report("operator", "shell", "fleet.scale");
    const json = (text: string): Uint8Array => new TextEncoder().encode(text);
    const at = (seq: number, text: string, subject = shell) => {
      const { delivery, fate } = deliveryOf(subject, json(text));
      return { delivery: { ...delivery, seq }, fate };
    };

    test("is taken once for each place in the stream, from whom the subject says", () => {
      const way = ingress();
      const deliveries = [at(4, '{"rollout":2}'), at(5, '{"rollout":2}'), at(4, '{"rollout":2}')];
      for (const { delivery } of deliveries) way.handle(delivery);
      expect(got.map(({ message }) => [message.id, message.from, message.role, message.body])).toEqual([
        ["json.shell.4", "shell", "operator", { rollout: 2 }],
        ["json.shell.5", "shell", "operator", { rollout: 2 }],
      ]);
      expect(deliveries.map(({ fate }) => fate)).toEqual([[], [], ["nak 500"]]);
    });

    test.each([
      ["of another shape", '{"rollouts":2}', shell, "malformed"],
      ["that is no JSON", "{rollout: 2}", shell, "malformed"],
      [
        "of what an operator may not say",
        '{"epoch":1}',
        subjects.report("operator", "shell", "mesh.built"),
        "wrong_role",
      ],
      [
        "from a replica's subject",
        '{"rollout":2}',
        subjects.report("rollout", "rollout-0", "fleet.scale"),
        "malformed",
      ],
      ["in another job's subject", '{"rollout":2}', shell.replace("dates", "other"), "wrong_job"],
    ])("%s is refused, and the refusal says where it was", (_, text, subject, reason) => {
      const refusals: unknown[] = [];
      const { delivery, fate } = at(9, text, subject);
      ingress({ onRefused: (refusal) => refusals.push(refusal) }).handle(delivery);
      expect([fate, got, refused(reason)]).toEqual([["term"], [], 1]);
      expect(refusals).toMatchObject([{ subject, seq: 9, reason }]);
    });

    test("is refused where nothing was stored", () => {
      ingress().handleCore(shell, json('{"rollout":2}'));
      expect([got, refused("malformed")]).toEqual([[], 1]);
    });
  });

  test("refuses a replica that registers as another role", () => {
    const message = speaker().stamp("replica.register", { role: "policy", host: "h", pid: 1, engineBuild: "" });
    const { delivery } = deliveryOf(subjects.report("rollout", "rollout-0", message.kind), encodeMessage(message));
    ingress().handle(delivery);
    expect([got, refused("spoofed")]).toEqual([[], 1]);
  });

  test("refuses kinds that the actor does not expect", () => {
    const { delivery, fate } = report();
    ingress({ expects: ({ role }) => role === "operator" }).handle(delivery);
    expect([fate, refused("unexpected")]).toEqual([["term"], 1]);
  });

  test("logs at most one refusal a second, with the first 32 bytes and how many went unlogged", () => {
    const way = ingress();
    const junk = deliveryOf(where, new Uint8Array(100).fill(0xc1)).delivery;
    for (let n = 0; n < 5; n++) way.handle(junk);
    clock.advance(1_000);
    way.handle(junk);
    expect(recorded.lines.map(({ fields }) => fields)).toMatchObject([
      { reason: "malformed", bytes: 100, prefix: "c1".repeat(32), unlogged: 0 },
      { reason: "malformed", unlogged: 4 },
    ]);
    expect(refused("malformed")).toBe(6);
  });

  test("survives any bytes on any subject", () => {
    const way = ingress();
    const token = fc.constantFrom(
      "muster",
      "dates",
      "reports",
      "hb",
      "commands",
      "rollout",
      "rollout-0",
      "mesh",
      "built",
      "",
    );
    const subject = fc.array(token, { maxLength: 8 }).map((tokens) => tokens.join("."));
    fc.assert(
      fc.property(subject, fc.uint8Array({ maxLength: 200 }), (where, data) => {
        const { delivery, fate } = deliveryOf(where, data);
        way.handle(delivery);
        expect(fate).toEqual(["term"]);
      }),
      { seed: 11, numRuns: 300 },
    );
  });

  test("takes heartbeats without acknowledging and without taking repeats for duplicates", () => {
    const body = { version: null, phase: "ready", progress: 0, loopLagMs: 0, rssBytes: 1 };
    const data = encodeMessage(speaker().stamp("heartbeat.beat", body));
    const way = ingress();
    way.handleCore(subjects.heartbeat("rollout", "rollout-0"), data);
    way.handleCore(subjects.heartbeat("rollout", "rollout-0"), data);
    way.handleCore(subjects.heartbeat("policy", "rollout-0"), data);
    expect([got.length, refused("spoofed")]).toEqual([2, 1]);
  });

  test("reads a durable consumer from end to end", async () => {
    const broker = createMemoryBroker({ job: "dates" });
    const [replica, controller] = [broker.connect("rollout.rollout-0.a1"), broker.connect("controller.c.c1")];
    const { handle } = ingress();
    await controller.consume({
      stream: "reports",
      consumer: "controller",
      filter: subjects.all.reports,
      deliver: "all",
      maxPending: 8,
      handle,
    });
    const { delivery, message } = report();
    await replica.publish(delivery.subject, delivery.data, { msgId: message.id });
    await turns(5);
    expect(got.map((entry) => entry.message)).toEqual([message]);
    got[0]?.settle();
    await Promise.all([replica.close(), controller.close()]);
  });
});
