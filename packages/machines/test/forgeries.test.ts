/** What is said under the name of a member, and not by it: it changes nothing, and the operator hears of it. */
import type { Role } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import type { ControllerEvent } from "../src/controller/events.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, linesOf, reportFrom, working } from "./states.ts";

const start = (): ControllerState => control(working({ members: ["p0", "r0", "c0"] }), tick(1)).state;
const tick = (atMs: number): ControllerEvent => ({ type: "controller.tick", atMs });

/** A report under the name of a member, with its own incarnation, from another role. */
const forged = (
  state: ControllerState,
  { from, role, kind, body }: { from: string; role: Role; kind: string; body: object },
) => ({ ...(reportFrom(state, from, { kind, body } as never) as object), role }) as ControllerEvent;

describe("a report under the name of a member", () => {
  it.each([
    ["replica.left", "p0", "rollout", { reason: "gone" }],
    ["replica.draining", "p0", "rollout", { reason: "wants to go" }],
    ["replica.register", "p0", "rollout", { role: "rollout", host: "h", pid: 1, engineBuild: "" }],
    ["replica.left", "r0", "checkpoint", { reason: "gone" }],
    ["weights.held", "c0", "rollout", { lineage: 0, version: 3, sections: [], addresses: [], bytes: 1, durationMs: 1 }],
  ] as const)("%s of %s from role %s changes nothing but a count, and is told", (kind, from, role, body) => {
    const before = start();
    const event = forged(before, { from, role, kind, body });
    const { state, effects } = control(before, event);
    expect(state.members[from]).toEqual(before.members[from]);
    expect({ ...state, dropped: before.dropped, nowMs: before.nowMs }).toEqual(before);
    expect(state.dropped.forged).toBe(1);
    expect(linesOf(effects)).toEqual(["! alarm.raised"]);
    expect(bodiesOf(effects, "alarm.raised")[0]?.detail).toContain(`${kind} of ${from}`);
  });

  it("does not tell a member that it is none, whatever incarnation the forger names", () => {
    const before = start();
    const event = forged(before, { from: "p0", role: "rollout", kind: "replica.left", body: {} });
    const { effects } = control(before, { ...event, incarnation: "elsewhere" } as ControllerEvent);
    expect(linesOf(effects)).toEqual(["! alarm.raised"]);
  });

  it("is told once, twice, four times and so on, however often it comes", () => {
    let state = start();
    let alarms = 0;
    for (let i = 0; i < 100; i++) {
      const event = forged(state, { from: "p0", role: "rollout", kind: "replica.left", body: {} });
      const next = control(state, event);
      state = next.state;
      alarms += bodiesOf(next.effects, "alarm.raised").length;
    }
    expect([state.dropped.forged, alarms]).toEqual([100, 7]);
  });

  it("of a process of another host, from a node, ends nobody", () => {
    const before = working({ members: ["p0", "n0"] });
    const node = { ...before.members.n0, role: "node", host: "host-n" };
    const state = { ...before, members: { ...before.members, n0: node } } as ControllerState;
    const { host = "", pid = 0 } = state.members.p0 ?? {};
    const body = { id: "p0", host, pid, code: 1, signal: null };
    const event = { ...reportFrom(state, "n0", { kind: "process.exited", body }), role: "node" } as ControllerEvent;
    const next = control(state, event);
    expect(next.state.members.p0).toBeDefined();
    expect(bodiesOf(next.effects, "alarm.raised")[0]?.detail).toContain("n0 on host-n says");
  });
});
