import { execFileSync, spawn } from "node:child_process";
import { createServer, type Server, type Socket } from "node:net";
import { secondHostMissing } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type FarNamespace, openFarNamespace, removeLeftovers } from "../../src/chaos/namespace.ts";
import { partition, partitionRules, type partitionWays } from "../../src/chaos/partition.ts";

describe("the rules of a partition", () => {
  const place = { nearAddress: "10.215.3.254", brokerPort: 4222, dataPort: 5001 };

  it("cut the data plane and leave the broker, or cut the broker and leave the data plane", () => {
    expect(partitionRules("t", "data-up", place)).toBe(
      "table inet t {\n  chain output {\n    type filter hook output priority 0; policy accept;\n    ip daddr 10.215.3.254 tcp dport != 4222 drop\n  }\n}\n",
    );
    expect(partitionRules("t", "broker-down", place)).toContain("ip saddr 10.215.3.254 tcp sport 4222 drop");
    expect(partitionRules("t", "data-port", place)).toContain("dport 5001 drop");
    expect(partitionRules("t", "data-port", { ...place, dataPort: null })).toContain("dport != 4222 drop");
  });

  it("cut one way or both", () => {
    const chains = (way: (typeof partitionWays)[number]) => partitionRules("t", way, place).match(/chain (\w+)/g);
    expect(chains("all")).toEqual(["chain output", "chain input"]);
    expect(chains("broker-up")).toEqual(["chain output"]);
    expect(chains("data-down")).toEqual(["chain input"]);
  });
});

const missing = secondHostMissing();

describe("a second host", () => {
  let namespace: FarNamespace;
  let server: Server;
  let port = 0;
  let peer: Socket | null = null;
  let heard = "";
  beforeEach((context) => context.skip(missing !== null, missing ?? ""));
  beforeAll(async () => {
    if (missing !== null) return;
    namespace = openFarNamespace();
    server = createServer((socket) => {
      peer = socket;
      socket.on("data", (chunk) => {
        heard += chunk.toString();
      });
      socket.on("error", () => {});
    });
    await new Promise<void>((resolve) => server.listen(0, namespace.nearAddress, resolve));
    const address = server.address();
    port = typeof address === "object" && address ? address.port : 0;
  });
  afterAll(() => {
    if (missing !== null) return;
    peer?.destroy();
    server.close();
    namespace.close();
  });

  /** A process on the second host that says what it is told to, and repeats what it hears. */
  function talk() {
    const code = `const s=require("net").connect(${port},"${namespace.nearAddress}");s.pipe(process.stdout);process.stdin.pipe(s);s.on("error",(e)=>{console.log(e.code);process.exit()})`;
    const [command = "ip", ...rest] = namespace.wrapper;
    const child = spawn(command, [...rest, process.execPath, "-e", code], { stdio: ["pipe", "pipe", "inherit"] });
    let back = "";
    child.stdout.on("data", (chunk) => {
      back += chunk.toString();
    });
    return { say: (text: string) => child.stdin.write(text), back: () => back };
  }
  const place = () => ({ nearAddress: namespace.nearAddress, brokerPort: 1, dataPort: port });

  it("is cut off in a connection that lives, one way and the other, and goes on when that is over", async () => {
    const far = talk();
    far.say("one ");
    await expect.poll(() => heard).toBe("one ");
    const endUp = partition(namespace, "data-up", place());
    far.say("two ");
    peer?.write("down ");
    // What comes down proves that time has passed for what went up.
    await expect.poll(() => far.back()).toBe("down ");
    expect(heard).toBe("one ");
    endUp();
    await expect.poll(() => heard, { timeout: 10_000 }).toBe("one two ");
    const endDown = partition(namespace, "data-down", place());
    peer?.write("late ");
    far.say("three ");
    await expect.poll(() => heard, { timeout: 10_000 }).toBe("one two three ");
    expect(far.back()).toBe("down ");
    endDown();
    await expect.poll(() => far.back(), { timeout: 10_000 }).toBe("down late ");
  });

  it("loses a connection that is refused", async () => {
    const far = talk();
    far.say("hello ");
    await expect.poll(() => heard).toContain("hello");
    const end = partition(namespace, "data-reject", place());
    far.say("again");
    await expect.poll(() => far.back(), { timeout: 10_000 }).toMatch(/ECONNRESET|ECONNREFUSED|EPIPE/);
    end();
  });

  it("is removed by the next run when the one that made it is gone, with the processes on it", async () => {
    const name = "much4194305";
    execFileSync("ip", ["netns", "add", name]);
    const child = spawn("ip", ["netns", "exec", name, "sleep", "600"], { stdio: "ignore" });
    const ended = new Promise((resolve) => child.once("exit", (_, signal) => resolve(signal)));
    await expect.poll(() => execFileSync("ip", ["netns", "pids", name], { encoding: "utf8" })).not.toBe("");
    expect(removeLeftovers()).toContain(name);
    expect(await ended).toBe("SIGKILL");
    expect(execFileSync("ip", ["netns", "list"], { encoding: "utf8" })).not.toContain(name);
    expect(execFileSync("ip", ["netns", "list"], { encoding: "utf8" })).toContain(namespace.name);
  });
});
