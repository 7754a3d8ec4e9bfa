import { describe, expect, it } from "vitest";
import { isProcessOf } from "../src/processes.ts";

const around = ["--job", "fleet", "--runs", "/runs"];
const actor = (id: string) => ({ runs: "/runs", job: "fleet", id });

describe("the process of an actor", () => {
  it("is told by its own id, not by that of the node that runs it", () => {
    const replica = ["node", "muster.mjs", "rollout", "--id", "rollout-4", ...around, "--node", "node-0"];
    expect(isProcessOf(replica, actor("rollout-4"))).toBe(true);
    expect(isProcessOf(replica, actor("node-0"))).toBe(false);
    expect(isProcessOf(["node", "muster.mjs", "node", "--id", "node-0", ...around], actor("node-0"))).toBe(true);
  });

  it("without an id is told by its role", () => {
    expect(isProcessOf(["node", "muster.mjs", "controller", ...around], actor("controller"))).toBe(true);
  });

  it("is neither that of another job nor the run itself", () => {
    const node = ["node", "muster.mjs", "node", "--id", "node-0", ...around];
    expect(isProcessOf(node, { ...actor("node-0"), job: "other" })).toBe(false);
    expect(isProcessOf(["node", "muster.mjs", "run", "--id", "node-0", ...around], actor("node-0"))).toBe(false);
  });
});
