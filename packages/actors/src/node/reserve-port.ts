/** Keeps a port free for a process that is about to listen on it. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";

/**
 * Draws a port of an address that nobody listens on. A connection to it was closed from its side, so the kernel holds the port back for a minute: it is
 * drawn for nobody, and whoever names it may listen on it, as servers do that allow an address to be used again (Node, PyTorch's TCPStore).
 *
 * @throws the error of the system, when the host has no such address.
 */
export async function reservePort(address: string): Promise<number> {
  const server = createServer((socket) => socket.end());
  server.listen({ host: address, port: 0, exclusive: true });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = connect({ host: address, port });
  client.resume();
  await once(client, "close");
  server.close();
  await once(server, "close");
  return port;
}
