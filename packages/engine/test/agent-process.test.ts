/** An agent that can not be started because this process has no free file descriptor: Node's child then has no streams. */
import { ChildProcess } from "node:child_process";
import { expect, test, vi } from "vitest";
import { AgentProcess } from "../src/agent/agent-process.ts";
import { ProcessMark } from "../src/programs/process-mark.ts";

vi.mock("node:child_process", async (original) => ({
  ...(await original<typeof import("node:child_process")>()),
  spawn: () => {
    const child = new ChildProcess();
    process.nextTick(() => child.emit("error", new Error("spawn agent EMFILE")));
    return child;
  },
}));

test("an agent that could not be started says why", async () => {
  const start = {
    words: ["agent"],
    env: {},
    directory: "/",
    input: "",
    mark: new ProcessMark(),
    memoryMax: 0,
    outputMax: 1,
  };
  await expect(new AgentProcess(start).ended).rejects.toThrow("spawn agent EMFILE");
});
