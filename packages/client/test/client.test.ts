/** A client of a job, on a real broker and on one in memory. */
import {
  type AnyMessage,
  type Body,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  encodeStatus,
  type JobStatus,
  type KindOf,
  pack,
  statusKey,
  subjectsOf,
} from "@muster/protocol";
import { startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { credentialsOfReplica, type Transport } from "@muster/transport";
import { createMemoryBroker, type MemoryBroker } from "@muster/transport/internal";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { clientOf, connectJob, type EventMessage, type JobClient } from "../src/index.ts";

const job = "small";
const subjects = subjectsOf(job);
const speaker = () =>
  createEnveloper({ job, id: "controller", role: "controller", incarnation: "i1", wallMs: () => 5 });
const status = { job, atMs: 0, phase: "sampling" } as unknown as JobStatus;

/** A controller that answers commands as a test wants. */
async function playController(transport: Transport, answer: (asked: AnyMessage) => readonly AnyMessage[]) {
  const say = async (message: AnyMessage, id = message.id) =>
    await transport.publish(subjects.event(message.kind), encodeMessage({ ...message, id }), {
      msgId: `${message.seq}.${id}`,
    });
  await transport.consume({
    ...{ stream: "reports", consumer: "controller", filter: subjects.all.reports, deliver: "all", maxPending: 8 },
    handle: ({ data, ack }) => {
      ack();
      for (const message of answer(decodeMessage(data))) void say(message);
    },
  });
  return { say };
}

const enveloper = speaker();
const event = <K extends KindOf<"event">>(kind: K, body: Body<K>): AnyMessage =>
  enveloper.stamp(kind, body) as AnyMessage;
const told = (asked: AnyMessage): Pick<Body<"command.done">, "commandId" | "kind" | "by"> => {
  const { commandId = "" } = asked.body as { commandId?: string };
  return { commandId, kind: asked.kind, by: asked.from };
};
const accepted = (asked: AnyMessage) => event("command.accepted", { ...told(asked), asked: "{}", detail: "taken" });
const done = (asked: AnyMessage) => event("command.done", { ...told(asked), outcome: "done", detail: "2 of 2" });

describe("a client", () => {
  let broker: MemoryBroker;
  let controller: Transport;
  let client: JobClient;
  beforeEach(() => {
    broker = createMemoryBroker({ job });
    controller = broker.connect("controller.controller.i1");
    client = clientOf(broker.connect("operator.muster.i2"), { incarnation: "i2" });
  });

  it("gives a command under an id of its own, and waits until it is done", async () => {
    const asked: AnyMessage[] = [];
    await playController(controller, (message) => {
      asked.push(message);
      return [accepted(message), done(message)];
    });
    const end = await client.command("fleet.scale", { rollout: 2 }, { timeoutMs: 5_000 });
    expect(end).toEqual({ outcome: "done", detail: "2 of 2" });
    expect(asked).toMatchObject([
      {
        kind: "fleet.scale",
        from: "muster",
        role: "operator",
        body: { rollout: 2, commandId: expect.stringMatching(/^c-/) },
      },
    ]);
  });

  it("goes on when a command is taken, when that is enough, and keeps an id that it is given", async () => {
    await playController(controller, (message) => [accepted(message)]);
    const body = { id: "rollout-0", commandId: "c-1" };
    expect(await client.command("fleet.cordon", body, { timeoutMs: 5_000, until: "accepted" })).toEqual({
      ...{ outcome: "accepted", detail: "taken" },
    });
    expect(await client.command("fleet.cordon", body, { timeoutMs: 50 })).toBeNull();
  });

  it("does not take a command for stored that the broker did not take, however late that is known", async () => {
    const transport = broker.connect("operator.muster.i3");
    const isLate = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 3));
    vi.spyOn(transport, "publish").mockImplementation(async () => {
      await isLate();
      throw new Error("the broker does not answer");
    });
    const asking = clientOf(transport, { incarnation: "i3" });
    await expect(asking.command("fleet.scale", { rollout: 2 }, { timeoutMs: 1 })).rejects.toThrow("does not answer");
  });

  it("says that a command is refused, by the machine or before anybody looked at it", async () => {
    await playController(controller, (message) =>
      message.kind === "fleet.cordon"
        ? [event("command.refused", { ...told(message), asked: "{}", reason: "nobody of that id" })]
        : [
            event("message.refused", {
              id: message.id,
              sender: "",
              subject: "",
              code: "malformed",
              detail: "why",
              unsaid: 0,
            }),
          ],
    );
    expect(await client.command("fleet.cordon", { id: "nobody" }, { timeoutMs: 5_000 })).toEqual({
      ...{ outcome: "refused", detail: "nobody of that id" },
    });
    await expect(client.command("job.stop", { reason: "x" }, { timeoutMs: 5_000 })).rejects.toMatchObject({
      ...{ code: "MUSTER_ERR_REQUEST_REFUSED", params: { kind: "job.stop", reason: "why" } },
    });
  });

  it("takes the end of a barrier that went on without it for no answer, because it comes with the next word", async () => {
    const at = { epoch: 0, iteration: 1, phase: 4 };
    const end = { ...at, reason: "r", waitedMs: 1, coverage: 1, shares: [] };
    await playController(controller, (message) => [
      event("barrier.ended", { ...end, outcome: "partial", arrived: [0, 1], missing: [2] }),
      event("barrier.refused", { ...at, rank: 2, by: `${message.from} ${message.incarnation}`, reason: "late" }),
    ]);
    const arrival = { ...at, rank: 2, ranks: 3 };
    expect(await client.arrive(arrival, { timeoutMs: 5_000 })).toEqual({
      ...{ ...at, rank: 2, by: "muster i2", reason: "late" },
    });
    expect(await client.arrive({ ...arrival, rank: 1 }, { timeoutMs: 5_000 })).toMatchObject({ outcome: "partial" });
  });

  it("hears that a barrier was given up, whether it was counted or not", async () => {
    const given = { epoch: 0, iteration: 1, phase: 4, outcome: "aborted" as const, arrived: [0], missing: [1, 2] };
    const body = { ...given, reason: "r", waitedMs: 1, coverage: 0, shares: [] };
    await playController(controller, () => [event("barrier.ended", body)]);
    const arrival = { epoch: 0, iteration: 1, phase: 4, rank: 2, ranks: 3 };
    expect(await client.arrive(arrival, { timeoutMs: 5_000 })).toEqual(body);
  });

  it("ends its wait when it is told to", async () => {
    const stop = new AbortController();
    const waiting = client.command("job.stop", { reason: "x" }, { timeoutMs: 60_000, signal: stop.signal });
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
  });

  it("follows each fact once and in order, from any point, and passes over what it can not read", async () => {
    const { say } = await playController(controller, () => []);
    const facts = [1, 2, 3].map((step) => event("step.skipped", { step, version: 0, reason: "r" }));
    for (const fact of facts) await say(fact);
    const [, second] = facts;
    await say({ ...(second as AnyMessage), seq: 99 });
    await controller.publish(subjects.event("step.burnt"), pack({ v: 1 }), { msgId: "odd" });
    await say(event("step.skipped", { step: 4, version: 0, reason: "r" }));
    const heard = async (fromSeq: number) => {
      const took: (readonly [number, unknown])[] = [];
      const odd: number[] = [];
      const take = (one: EventMessage, seq: number) => void took.push([seq, (one.body as { step: number }).step]);
      const events = await client.follow({ fromSeq, take, unreadable: (seq) => odd.push(seq) });
      await waitFor(() => took.some(([, step]) => step === 4), { what: "the last event", timeoutMs: 5_000 });
      await events.close();
      return { took, odd };
    };
    expect(await heard(1)).toEqual({
      took: [
        [1, 1],
        [2, 2],
        [3, 3],
        [6, 4],
      ],
      odd: [5],
    });
    expect(await heard(3)).toEqual({
      took: [
        [3, 3],
        [4, 2],
        [6, 4],
      ],
      odd: [5],
    });
  });

  it("says when the broker is away and back", async () => {
    const heard: boolean[] = [];
    const stop = client.onConnection((isConnected) => heard.push(isConnected));
    broker.disconnect("operator.muster.i2");
    broker.reconnect("operator.muster.i2");
    expect(heard).toEqual([false, true]);
    stop();
    broker.disconnect("operator.muster.i2");
    expect(heard).toHaveLength(2);
  });

  it("has no status before a controller wrote one, and says whose it can not read", async () => {
    expect(await client.status()).toBeNull();
    await controller.state().put(statusKey, encodeStatus(status));
    await expect(client.status()).rejects.toMatchObject({ code: "MUSTER_ERR_STATUS_UNREADABLE", params: { job } });
  });
});

describe("a client of a real broker", { timeout: 60_000 }, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer({ job });
  }, 60_000);
  afterAll(() => server.close());

  it("connects as an operator, and is told what became of its command", async () => {
    const controller = await server.connect("controller.controller.i1");
    await playController(controller, (message) => [done(message)]);
    const { url } = server;
    const client = await connectJob({ url, job, credentials: server.server.credentials.operator, id: "scaler" });
    const end = await client.command("fleet.scale", { rollout: 1 }, { timeoutMs: 20_000 });
    expect(end?.outcome).toBe("done");
    await client.close();
  });

  it("speaks under the name that its credentials were given to, and under no other", async () => {
    const { url } = server;
    const credentials = credentialsOfReplica(server.server.credentials.operator, "somebody");
    const client = await connectJob({ url, job, credentials });
    expect(await client.status()).toBeNull();
    await client.close();
    await expect(connectJob({ url, job, credentials, id: "another" })).rejects.toMatchObject({
      code: "MUSTER_ERR_CREDENTIALS_OTHER",
    });
  });
});
