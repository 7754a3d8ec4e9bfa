import { describe, expect, it } from "vitest";
import type { Arm } from "../../src/faults/failpoints.ts";
import { modelsOf } from "../support/models.ts";

const subject = "muster.test.reports.policy.policy-1.step.voted";
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (data: Uint8Array): string => new TextDecoder().decode(data);

const arm = (point: string, action: Arm["action"], nth = 1): Arm => ({ point, nth, action });

describe("the broker as a simulated process sees it", () => {
  it("stores a message once whose acknowledgement was lost: the client asks again with the same id", async () => {
    const { network, process, stored, runFor } = modelsOf([arm("policy.after-publish.step.voted", { type: "drop" })]);
    const transport = await network.connect(process("policy-1", "policy"));
    const published = transport.publish(subject, bytes("vote"), { msgId: "m1" });
    await runFor(5_000);
    expect(await published).toEqual({ seq: 1, duplicate: true });
    expect(stored.map(({ seq }) => seq)).toEqual([1]);
  });

  it("leaves a sender in doubt when no answer comes until the deadline, though the message is stored", async () => {
    const { network, process, stored, runFor } = modelsOf();
    const node = process("policy-1", "policy");
    const transport = await network.connect(node);
    network.partition([node], "down");
    const published = transport.publish(subject, bytes("vote"), { msgId: "m1", timeoutMs: 2_000 });
    const outcome = published.catch((error: { code: string }) => error.code);
    await runFor(3_000);
    expect(await outcome).toBe("MUSTER_ERR_PUBLISH_UNKNOWN");
    expect(stored).toHaveLength(1);
  });

  it("delivers a message again whose receiver died before it acknowledged", async () => {
    const { network, process, runFor } = modelsOf([arm("controller.before-ack.step.voted", { type: "crash" })]);
    const sender = await network.connect(process("policy-1", "policy"));
    const seen: number[] = [];
    const consumeAs = async (name: string): Promise<void> => {
      const transport = await network.connect(process(name, "controller"));
      await transport.consume({
        stream: "reports",
        consumer: "controller",
        filter: "muster.test.reports.>",
        deliver: "all",
        maxPending: 10,
        handle: ({ redeliveries, ack }) => {
          seen.push(redeliveries);
          ack();
        },
      });
    };
    await consumeAs("first");
    void sender.publish(subject, bytes("vote"), { msgId: "m1" });
    await runFor(1_000);
    await consumeAs("second");
    await runFor(60_000);
    expect(seen).toEqual([0, 1]);
  });

  it("lets one of two writers append to the journal, and tells the other that it is fenced", async () => {
    const { network, process, runFor } = modelsOf();
    const journals = await Promise.all(
      ["first", "second"].map(async (name) => (await network.connect(process(name, "controller"))).journal()),
    );
    const tries = journals.map((journal, i) =>
      journal.append(bytes(`record of ${i}`), 0, `id${i}`).catch((error: { code: string }) => error.code),
    );
    await runFor(5_000);
    expect((await Promise.all(tries)).toSorted()).toEqual([1, "MUSTER_ERR_FENCED"].toSorted());
  });

  it("gives an appender that asks again its own record, not a fence", async () => {
    const { network, process, runFor } = modelsOf([arm("controller.after-journal", { type: "drop" })]);
    const journal = (await network.connect(process("controller"))).journal();
    const appended = journal.append(bytes("record"), 0, "id");
    await runFor(5_000);
    expect(await appended).toBe(1);
  });

  it("stores late what was sent before a cut that nobody noticed", async () => {
    const { network, process, stored, runFor } = modelsOf();
    const node = process("policy-1", "policy");
    const transport = await network.connect(node);
    network.partition([node], "both");
    const published = transport.publish(subject, bytes("vote"), { msgId: "m1", timeoutMs: 20_000 });
    await runFor(7_000);
    expect(stored).toEqual([]);
    network.heal([node]);
    await runFor(3_000);
    expect((await published).duplicate).toBe(false);
    expect(stored.map(({ data }) => textOf(data))).toEqual(["vote"]);
  });

  it("fails what is under way when the connection is closed", async () => {
    const { network, process, runFor } = modelsOf();
    const transport = await network.connect(process("policy-1", "policy"));
    const outcome = transport.publish(subject, bytes("vote"), { msgId: "m1" }).catch(({ code }) => code);
    await transport.close();
    await runFor(10);
    expect(await outcome).toBe("MUSTER_ERR_TRANSPORT_CLOSED");
  });
});
