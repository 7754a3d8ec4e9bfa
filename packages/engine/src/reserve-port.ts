/** Keeps a port free for a process that is about to listen on it. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";

/** A connection from this host to itself takes no longer. */
const connectMs = 2_000;

/**
 * Draws a port of an address that nobody listens on. A connection to it was closed from its side, so the kernel holds the port back for a minute: it is
 * drawn for nobody, and whoever names it may listen on it, as servers do that allow an address to be used again (Node, PyTorch's TCPStore).
 *
 * @throws the error of the system, when the host has no such address, and ETIMEDOUT when a connection to it takes longer than two seconds.
 */
export async function reservePort(address: string): Promise<number> {
  const server = createServer((socket) => socket.end());
  server.listen({ host: address, port: 0, exclusive: true });
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const client = connect({ host: address, port, timeout: connectMs });
    const late = Object.assign(new Error(`connect ETIMEDOUT ${address}:${port}`), { code: "ETIMEDOUT" });
    client.once("timeout", () => client.destroy(late));
    client.resume();
    await once(client, "close");
    return port;
  } finally {
    server.close();
    await once(server, "close");
  }
}
