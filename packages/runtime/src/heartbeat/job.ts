/** What the main thread and the heartbeat thread tell each other. */
import type { Identity } from "@muster/protocol";
import type { Credentials } from "@muster/transport";

/** How the thread reaches the broker: its own connection. */
export interface HeartbeatConnection {
  /** See `ConnectOptions` of `@muster/transport`. */
  readonly url: string;
  readonly credentials: Credentials;
  /** Name of the thread's connection. */
  readonly name: string;
}

/** Everything the thread is given when it starts. */
export interface HeartbeatJob {
  readonly connection: HeartbeatConnection;
  readonly identity: Identity;
  readonly intervalMs: number;
  /** The main loop ticks this often. */
  readonly tickMs: number;
  readonly phases: readonly string[];
  readonly memory: SharedArrayBuffer;
}

/** What the thread tells the main thread. */
export type HeartbeatNotice =
  | { readonly type: "connected" }
  | { readonly type: "trouble"; readonly code: string; readonly message: string };

/** The one word the main thread says to the thread. */
export const stopWord = "stop";
