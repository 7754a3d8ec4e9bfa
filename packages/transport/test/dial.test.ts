/** Servers that take a connection and never speak, as one does that is frozen: whoever gives up on them leaves nothing open. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { waitFor } from "@muster/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { connectNode } from "../src/nats/dial.ts";

let server: Server;
let taken: Socket[];
let greeting: string;
beforeEach(async () => {
  taken = [];
  greeting = "";
  server = createServer((socket) => {
    taken.push(socket.on("error", () => {}).on("data", () => socket.write("PONG\r\n")));
    socket.write(greeting);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterEach(() => {
  for (const socket of taken) socket.destroy();
  server.close();
});

const address = (): string => `127.0.0.1:${(server.address() as AddressInfo).port}`;
const isAllClosed = (): boolean => taken.every((socket) => socket.destroyed);

it("a connection that nobody answers in time is closed", async () => {
  await expect(connectNode({ servers: address(), timeout: 50 })).rejects.toThrow("timeout");
  await waitFor(() => taken.length === 1 && isAllClosed(), { what: "the end of the connection" });
});

it("a connection that is closed while it is dialled again leaves nothing open", async () => {
  greeting = 'INFO {"server_id":"frozen","version":"2.11.0","max_payload":1048576,"proto":1}\r\n';
  const connection = await connectNode({
    servers: address(),
    timeout: 60_000,
    reconnectTimeWait: 1,
    reconnectJitter: 0,
  });
  greeting = "";
  taken[0]?.destroy();
  await waitFor(() => taken.length === 2, { what: "the second dial" });
  await connection.close();
  await waitFor(isAllClosed, { what: "the end of the second dial" });
});

it("says why nobody could be reached", async () => {
  const nobody = address();
  server.close();
  await expect(connectNode({ servers: nobody, timeout: 5_000 })).rejects.toThrow("connection refused");
});
