import { connect, createServer, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BrokerProxy, startBrokerProxy } from "../../src/chaos/broker-proxy.ts";

/** A server that greets, and keeps what it hears. */
interface Listener {
  readonly port: number;
  readonly heard: () => string;
  say(text: string): void;
  close(): void;
}

let server: Listener;
let proxy: BrokerProxy;
const clients: Socket[] = [];
beforeEach(async () => {
  server = await listen();
  proxy = await startBrokerProxy(() => server.port);
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await proxy.close();
  server.close();
});

async function listen(): Promise<Listener> {
  const sockets = new Set<Socket>();
  let heard = "";
  const own = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      heard += chunk.toString();
    });
    socket.write("INFO {}\r\n");
  });
  await new Promise<void>((resolve) => own.listen(0, "127.0.0.1", resolve));
  const address = own.address();
  return {
    port: typeof address === "object" && address ? address.port : 0,
    heard: () => heard,
    say: (text) => sockets.forEach((socket) => void socket.write(text)),
    close: () => {
      for (const socket of sockets) socket.destroy();
      own.close();
    },
  };
}

async function dial(name: string) {
  const socket = connect(Number(new URL(proxy.url).port), "127.0.0.1");
  clients.push(socket);
  let heard = "";
  socket.on("error", () => {});
  socket.on("data", (chunk) => {
    heard += chunk.toString();
  });
  await expect.poll(() => heard).toContain("INFO");
  socket.write(`CONNECT {"verbose":false,"name":"${name}"}\r\n`);
  await expect.poll(() => server.heard()).toContain(name);
  return { socket, heard: () => heard };
}

/** Long enough for bytes that pass to have passed: another connection's bytes made the same way meanwhile. */
async function turnOf(other: { readonly socket: Socket }, word: string): Promise<void> {
  other.socket.write(word);
  await expect.poll(() => server.heard()).toContain(word);
}

describe("the proxy before the broker", () => {
  it("holds back what one replica says, and nothing of the others", async () => {
    const cut = await dial("policy.policy-1.i1");
    const other = await dial("rollout.rollout-0.i1");
    const heal = proxy.cut("policy-1", "up");
    cut.socket.write("held\r\n");
    await turnOf(other, "passes\r\n");
    expect(server.heard()).not.toContain("held");
    heal();
    await expect.poll(() => server.heard()).toContain("held");
  });

  it("holds back what one replica hears", async () => {
    const cut = await dial("policy.policy-1.i1");
    const other = await dial("rollout.rollout-0.i1");
    const heal = proxy.cut("policy-1", "down");
    server.say("news\r\n");
    await expect.poll(() => other.heard()).toContain("news");
    expect(cut.heard()).not.toContain("news");
    heal();
    await expect.poll(() => cut.heard()).toContain("news");
  });

  it("knows a replica that comes while it is cut, by its first line", async () => {
    const other = await dial("rollout.rollout-0.i1");
    proxy.cut("policy-1", "both");
    const late = await dial("policy.policy-1.i2.hb");
    late.socket.write("held\r\n");
    await turnOf(other, "passes\r\n");
    expect(server.heard()).not.toContain("held");
  });

  it("ends the connections of one replica", async () => {
    const cut = await dial("policy.policy-1.i1");
    const other = await dial("rollout.rollout-0.i1");
    const closed = new Promise((resolve) => cut.socket.once("close", resolve));
    expect(proxy.reset("policy-1")).toBe(1);
    await closed;
    await turnOf(other, "passes\r\n");
    expect(proxy.reset("policy-1")).toBe(0);
  });
});
