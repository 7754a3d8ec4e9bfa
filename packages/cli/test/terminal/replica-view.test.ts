import { manualClock } from "@muster/runtime/internal";
import { windowOf } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { ReplicaView } from "../../src/terminal/replica-view.ts";
import type { Terminal } from "../../src/terminal/terminal.ts";

const size = { rows: 24, columns: 80 };

function show(role: string, entries: readonly object[]): readonly string[] {
  let output = "";
  const terminal: Terminal = {
    ...{ isLive: true, hasColour: false, columns: () => size.columns, rows: () => size.rows },
    write: (text) => {
      output += text;
    },
    onResize: () => () => {},
  };
  const wallMs = () => new Date(2026, 0, 1, 12, 0, 7).getTime();
  const view = new ReplicaView({ terminal, clock: manualClock(), wallMs, id: `${role}-x`, role });
  for (const entry of entries) view.take(`${JSON.stringify({ level: "info", ...entry })}\n`);
  view.end();
  return windowOf(output, size);
}

const moved = (kind: string, to: string) => ({ msg: "state changed", kind, from: "", to });

describe("a replica on a terminal", () => {
  it("shows what it holds and has done on one line, and says when it comes and goes", () => {
    const lines = show("rollout", [
      moved("replica.registered", "membership.member|work.weights.waiting|work.ready"),
      { msg: "weights arrived", version: 3 },
      moved("groups.lease", "membership.member|work.weights.waiting|work.generating"),
      moved("groups.generated", "membership.member|work.weights.waiting|work.ready"),
      moved("groups.lease", "membership.member|work.weights.waiting|work.generating"),
      { msg: "replica ended", outcome: "left", reason: "drained" },
    ]);
    expect(lines).toEqual([
      "12:00:07  + joined",
      "12:00:07  - left: drained",
      "rollout-x  generating  v3  1 groups  for 0.0 s",
      "",
    ]);
  });

  it("says what is wrong and why, cleaned, and no more of what is well", () => {
    const lines = show("policy", [
      { level: "warn", msg: "store can not be\u001b[2J opened", error: { message: "ENOSPC: no space left on device" } },
      { msg: "anything else" },
    ]);
    expect(lines.slice(0, -2)).toEqual(["12:00:07  ! store can not be opened: ENOSPC: no space left on device"]);
  });

  it("tells of the processes of a node", () => {
    const lines = show("node", [
      { msg: "process started", id: "policy-0" },
      { msg: "process started", id: "rollout-0" },
      { level: "warn", msg: "process ended", id: "rollout-0", code: null, signal: "SIGKILL" },
    ]);
    expect(lines).toEqual([
      "12:00:07  + policy-0 started",
      "12:00:07  + rollout-0 started",
      "12:00:07  ! rollout-0 ended with SIGKILL",
      "node-x  1 processes  for 0.0 s",
      "",
    ]);
  });
});
