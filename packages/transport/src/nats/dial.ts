/**
 * How the client library dials. Its own transport closes a socket only once the server has spoken: a dial that is given up before, because time is over or
 * the connection is closed, leaves its socket open, and an open socket keeps its process alive for as long as a frozen server is frozen.
 */
import { createConnection, type Socket } from "node:net";
import type { NatsConnection } from "@nats-io/nats-core";
import { NatsConnectionImpl, setTransportFactory } from "@nats-io/nats-core/internal";
import type { NodeConnectionOptions } from "@nats-io/transport-node";
import { NodeTransport, nodeResolveHost } from "@nats-io/transport-node/lib/node_transport.js";

/** A transport that is closed with its socket, whatever state that is in. */
class ClosingTransport extends NodeTransport {
  #socket: Socket | null = null;

  override dial({ hostname, port }: { hostname: string; port: number }): Promise<Socket> {
    const socket = createConnection(port, hostname);
    this.#socket = socket;
    return new Promise((resolve, reject) => {
      let fault: Error | undefined;
      socket.on("error", (error) => {
        fault = error;
      });
      socket.on("close", () => reject(fault ?? new Error("the connection was closed before it was there")));
      socket.on("connect", () => {
        // Whoever asked for the socket listens to it from here on.
        socket.removeAllListeners();
        resolve(socket);
      });
      socket.setNoDelay(true);
    });
  }

  override async close(error?: Error): Promise<void> {
    await super.close(error);
    this.#end();
  }

  override discard(): void {
    super.discard();
    this.#end();
  }

  /** A socket that nobody listens to any more may still report a fault. */
  #end(): void {
    this.#socket?.on("error", () => {}).destroy();
  }
}

/** Connects as `connect` of `@nats-io/transport-node` does; nothing is left open by an attempt that fails, nor by a connection that is closed. */
export function connectNode(options: NodeConnectionOptions): Promise<NatsConnection> {
  setTransportFactory({ factory: () => new ClosingTransport(), dnsResolveFn: nodeResolveHost });
  return NatsConnectionImpl.connect(options);
}
