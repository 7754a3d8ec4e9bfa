/** Sending without storing; the state of the connection and its end. */
import type { TransportStatus } from "@muster/transport";
import { expect, test } from "vitest";
import type { Actors } from "./actors.ts";
import { bytes, Inbox, subjects } from "./helpers.ts";

export function testSending(actors: () => Actors): void {
  test("what is sent reaches those who listen to its pattern, and nobody else", async () => {
    const { controller, rollout, policy } = actors();
    const all = new Inbox<{ readonly data: Uint8Array }>();
    const rollouts = new Inbox<{ readonly data: Uint8Array }>();
    const hb = subjects(controller).all.heartbeats;
    await controller.subscribe(hb, (_, data) => all.take({ data }));
    await controller.subscribe(hb.replace("*.*", "rollout.*"), (_, data) => rollouts.take({ data }));
    policy.send(subjects(policy).heartbeat("policy", "p0"), bytes("p"));
    await policy.flush();
    rollout.send(subjects(rollout).heartbeat("rollout", "r0"), bytes("r"));
    await all.has(2);
    await rollouts.has(1);
    expect(all.texts).toEqual(["p", "r"]);
    expect(rollouts.texts).toEqual(["r"]);
  });

  test("a closed subscription hears nothing more", async () => {
    const { controller, rollout } = actors();
    const heard = new Inbox<{ readonly data: Uint8Array }>();
    const control = new Inbox<{ readonly data: Uint8Array }>();
    const pattern = subjects(controller).all.heartbeats;
    const subscription = await controller.subscribe(pattern, (_, data) => heard.take({ data }));
    await controller.subscribe(pattern, (_, data) => control.take({ data }));
    await subscription.close();
    rollout.send(subjects(rollout).heartbeat("rollout", "r0"), bytes("r"));
    await control.has(1);
    expect(heard.items).toEqual([]);
  });

  test("a listener is told the present state, a failing handler is reported, and closing ends everything", async () => {
    const { controller, rollout } = actors();
    const seen: TransportStatus[] = [];
    controller.onStatus((status) => seen.push(status));
    expect(seen).toEqual([{ type: "connected" }]);
    const control = new Inbox<{ readonly data: Uint8Array }>();
    await controller.subscribe(subjects(controller).all.heartbeats, (_, data) => {
      control.take({ data });
      throw new Error("on purpose");
    });
    rollout.send(subjects(rollout).heartbeat("rollout", "r0"), bytes("r"));
    await control.has(1);
    expect(seen[1]).toMatchObject({ type: "error", error: { code: "MUSTER_ERR_DELIVERY_HANDLER_FAILED" } });
    await controller.close();
    await controller.close();
    expect(seen.at(-1)).toEqual({ type: "closed" });
    expect(controller.isConnected()).toBe(false);
    controller.send("muster.any", bytes("dropped"));
    const late = controller.publish(subjects(controller).event("step.done"), bytes("x"), { msgId: "x" });
    await expect(late).rejects.toMatchObject({ code: "MUSTER_ERR_TRANSPORT_CLOSED" });
  });
}
