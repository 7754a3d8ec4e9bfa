/**
 * A TCP proxy in front of a job's broker that knows whose connection is whose: the client says its name in its first line. So the
 * connections of one replica can be cut, one way or both, while all others go on.
 */
import { connect, createServer, type Server, type Socket } from "node:net";

/** What does not pass: words to the broker, words from it, or both. */
export type CutDirection = "up" | "down" | "both";

/** A running proxy. */
export interface BrokerProxy {
  /** `nats://<address>:<port>`. */
  readonly url: string;
  readonly port: number;
  /** Holds back what the connections of a replica say or hear, new ones too, until the returned function is called. Nothing is dropped. */
  cut(id: string, direction: CutDirection): () => void;
  /** Ends the connections of a replica. @returns How many there were. */
  reset(id: string): number;
  close(): Promise<void>;
}

/** Bytes that a first line may have; a client that says nothing sensible by then stays nameless. */
const firstLineMax = 64 * 1024;

/**
 * Starts a proxy on a free port.
 *
 * @param upstreamPort - Where the broker listens; asked at every connection, because the broker may start after the proxy.
 * @param address - Where it listens; loopback unless other hosts should reach it.
 * @param idOf - By what a connection is known here, from its name `<role>.<id>.<incarnation>`; default the id.
 */
export async function startBrokerProxy(
  upstreamPort: () => number,
  address = "127.0.0.1",
  idOf: (name: string) => string = (name) => name.split(".")[1] ?? "",
): Promise<BrokerProxy> {
  const links = new Set<Link>();
  const cuts = new Map<string, Set<CutDirection>>();
  const refresh = (id: string): void => {
    for (const link of links) if (link.id === id) link.obey(cuts.get(id) ?? new Set());
  };
  const server = createServer((client) => {
    const upstream = connect({ host: "127.0.0.1", port: upstreamPort() });
    const link = new Link(client, upstream, (name) => {
      link.id = name === "" ? "" : idOf(name);
      link.obey(cuts.get(link.id) ?? new Set());
    });
    links.add(link);
    link.onClose(() => links.delete(link));
  });
  const port = await listen(server, address);
  return {
    url: `nats://${address}:${port}`,
    port,
    cut(id, direction) {
      const present = cuts.get(id) ?? new Set<CutDirection>();
      // Two cuts of one direction are one: the schedule never asks for that, and the first end would end both.
      present.add(direction);
      cuts.set(id, present);
      refresh(id);
      return () => {
        present.delete(direction);
        refresh(id);
      };
    },
    reset(id) {
      const own = [...links].filter((link) => link.id === id);
      for (const link of own) link.end();
      return own.length;
    },
    async close() {
      for (const link of links) link.end();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function listen(server: Server, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, () => {
      const address = server.address();
      resolve(typeof address === "object" && address ? address.port : 0);
    });
  });
}

/** One connection through the proxy. */
class Link {
  /** Id of the replica, once it has said its name. */
  id: string | null = null;
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #closers: (() => void)[] = [];
  #head = "";

  constructor(client: Socket, upstream: Socket, onNamed: (name: string) => void) {
    this.#client = client;
    this.#upstream = upstream;
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      // The end of either side is the end of both; why it ended is the other side's business.
      socket.on("error", () => this.end());
      socket.on("close", () => this.end());
    }
    client.on("data", (chunk) => {
      if (this.id === null) this.#listenForName(chunk, onNamed);
      if (!upstream.write(chunk)) pauseUntilDrained(client, upstream);
    });
    upstream.on("data", (chunk) => {
      if (!client.write(chunk)) pauseUntilDrained(upstream, client);
    });
  }

  /** Reads or stops reading each side. What a side says meanwhile waits in the kernel. */
  obey(cuts: ReadonlySet<CutDirection>): void {
    hold(this.#client, cuts.has("up") || cuts.has("both"));
    hold(this.#upstream, cuts.has("down") || cuts.has("both"));
  }

  onClose(run: () => void): void {
    this.#closers.push(run);
  }

  end(): void {
    this.#client.destroy();
    this.#upstream.destroy();
    for (const run of this.#closers.splice(0)) run();
  }

  /** The name is `<role>.<id>.<incarnation>`, as the product names its connections. */
  #listenForName(chunk: Buffer, onNamed: (name: string) => void): void {
    this.#head += chunk.toString("latin1");
    const name = /^CONNECT .*?"name":"([a-z]+\.[a-z0-9-]+\.[^"]*)"/m.exec(this.#head)?.[1];
    if (name === undefined && this.#head.length < firstLineMax) return;
    this.#head = "";
    onNamed(name ?? "");
  }
}

const held = new WeakSet<Socket>();

function hold(socket: Socket, isHeld: boolean): void {
  if (isHeld) {
    held.add(socket);
    socket.pause();
  } else if (held.delete(socket)) socket.resume();
}

function pauseUntilDrained(from: Socket, to: Socket): void {
  from.pause();
  to.once("drain", () => {
    if (!held.has(from)) from.resume();
  });
}
