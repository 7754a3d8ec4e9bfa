import { describe, expect, it } from "vitest";
import { modelsOf } from "../support/models.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (data: Uint8Array): string => new TextDecoder().decode(data);

describe("the simulated network", () => {
  it("carries a heartbeat after a delay, and late when the sender was cut off and nobody noticed", async () => {
    const { network, process, runFor } = modelsOf();
    const [sender, hearer] = [process("policy-1"), process("controller")];
    const out = await network.connect(sender);
    const heard: string[] = [];
    await (await network.connect(hearer)).subscribe("muster.test.hb.>", (_, data) => heard.push(textOf(data)));
    out.send("muster.test.hb.policy.policy-1", bytes("first"));
    expect(heard).toEqual([]);
    await runFor(100);
    network.partition([sender], "up");
    out.send("muster.test.hb.policy.policy-1", bytes("late"));
    await runFor(100);
    network.heal([sender]);
    out.send("muster.test.hb.policy.policy-1", bytes("second"));
    await runFor(100);
    expect(heard).toEqual(["first", "late", "second"]);
  });

  it("loses what was on its way in a connection that broke, and sends what came after it when it is back", async () => {
    const { network, process, runFor } = modelsOf();
    const sender = process("policy-1");
    const out = await network.connect(sender);
    const heard: string[] = [];
    await (await network.connect(process("controller"))).subscribe("muster.test.hb.>", (_, data) =>
      heard.push(textOf(data)),
    );
    network.partition([sender], "both");
    out.send("muster.test.hb.policy.policy-1", bytes("in the broken connection"));
    await runFor(6_000);
    out.send("muster.test.hb.policy.policy-1", bytes("while away"));
    network.heal([sender]);
    await runFor(1_000);
    expect(heard).toEqual(["while away"]);
  });

  it("keeps the order of one connection, however much the delays differ", async () => {
    const { network, process, runFor } = modelsOf();
    network.noise = { ...network.noise, jitterMs: 500 };
    const out = await network.connect(process("policy-1"));
    const heard: string[] = [];
    await (await network.connect(process("controller"))).subscribe("muster.test.hb.>", (_, data) =>
      heard.push(textOf(data)),
    );
    for (let i = 0; i < 50; i++) out.send("muster.test.hb.policy.policy-1", bytes(String(i)));
    await runFor(60_000);
    expect(heard).toEqual(Array.from({ length: 50 }, (_, i) => String(i)));
  });

  it("tells both ends of a reset at once, and of a cut only after a while", async () => {
    const { network, process, runFor } = modelsOf();
    const node = process("policy-1");
    const transport = await network.connect(node);
    network.partition([node], "both");
    await runFor(4_900);
    expect(transport.isConnected()).toBe(true);
    await runFor(200);
    expect(transport.isConnected()).toBe(false);
    network.heal([node]);
    await runFor(1_000);
    expect(transport.isConnected()).toBe(true);
    network.disconnect([node]);
    expect(transport.isConnected()).toBe(false);
  });

  it("lets nobody back in while the broker is away", async () => {
    const { network, process, runFor } = modelsOf();
    const transport = await network.connect(process("policy-1"));
    network.stopBroker();
    network.heal([process("policy-1")]);
    await runFor(2_000);
    expect(transport.isConnected()).toBe(false);
    network.startBroker();
    await runFor(2_000);
    expect(transport.isConnected()).toBe(true);
  });
});
