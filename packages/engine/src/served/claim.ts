/** Which servers of a list are this sampler's: those that no other sampler of this host has. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { errors } from "../errors.ts";
import type { ServedOptions } from "./options.ts";

/** Servers that are taken, until they are given back or this process ends. */
export interface Claim {
  readonly urls: readonly string[];
  release(): Promise<void>;
}

/**
 * Takes the first servers that are free. What marks one as taken is a socket in the kernel's own name space, which ends with the process.
 *
 * @throws MUSTER_ERR_SERVER_TAKEN
 */
export async function claimServers({ urls, count, kind }: ServedOptions): Promise<Claim> {
  const held: { readonly url: string; readonly socket: Server }[] = [];
  const release = async (): Promise<void> => {
    for (const { socket } of held) await new Promise((resolve) => socket.close(resolve));
  };
  for (const url of urls) {
    if (held.length === count) break;
    const socket = await tryHold(url);
    if (socket) held.push({ url, socket });
  }
  if (held.length === count) return { urls: held.map(({ url }) => url), release };
  await release();
  throw errors.ServerTaken({ wanted: String(count), free: String(held.length), kind });
}

async function tryHold(url: string): Promise<Server | null> {
  const name = createHash("sha256").update(new URL(url).origin).digest("hex").slice(0, 32);
  const socket = createServer((visitor) => visitor.destroy());
  socket.listen(`\0muster-served-${name}`);
  try {
    await once(socket, "listening");
    return socket;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return null;
    throw error;
  }
}
