/** Bugs of what reads and writes messages: dedup, fencing, identity. */
import { type AnyMessage, type Body, pack, unpack } from "@muster/protocol";
import type { HeardMessage } from "../net/wire.ts";
import type { SimProcess } from "../world/process.ts";
import type { Canary } from "./canary.ts";

type Draft = { -readonly [K in keyof AnyMessage]: AnyMessage[K] } & { to?: string };

/** Reads a message, lets a bug change it, and writes it again. Heartbeats and the journal pass. */
function edited(message: HeardMessage, change: (draft: Draft) => void): Uint8Array {
  const draft = unpack(message.data) as Draft;
  change(draft);
  return pack(draft);
}

/** Canaries on the wire. */
export const wireCanaries: readonly Canary[] = [
  {
    name: "lower-term-obeyed",
    says: "a replica obeys orders of a controller that was replaced",
    profile: "swarm",
    seedsMax: 120,
    make: () => {
      const highest = new Map<SimProcess, number>();
      return {
        wire: {
          hearing: (message) =>
            edited(message, (draft) => {
              if (draft.role !== "controller") return;
              const term = Math.max(highest.get(message.by) ?? 0, draft.term);
              highest.set(message.by, term);
              draft.term = term;
            }),
        },
      };
    },
  },
  {
    name: "incarnation-not-checked",
    says: "a replica obeys orders that were meant for an earlier life",
    profile: "swarm",
    seedsMax: 60,
    make: () => ({
      wire: {
        hearing: (message) =>
          edited(message, (draft) => {
            delete draft.to;
          }),
      },
    }),
  },
  {
    name: "effects-before-journal",
    says: "the controller acts before its decision is stored",
    profile: "quiet",
    seedsMax: 5,
    make: () => ({ wire: { journalsLate: true } }),
  },
  {
    name: "no-compare-and-set",
    says: "a record is appended whoever else appended meanwhile",
    profile: "swarm",
    seedsMax: 60,
    make: () => ({ wire: { ignoresFence: true } }),
  },
  {
    name: "receipt-counts-wrong",
    says: "a receipt says one trajectory more than was stored",
    profile: "quiet",
    seedsMax: 5,
    make: () => ({
      wire: {
        hearing: (message) =>
          edited(message, (draft) => {
            if (draft.kind !== "groups.completed") return;
            const { receipts, ...rest } = draft.body as Body<"groups.completed">;
            draft.body = { ...rest, receipts: receipts.map((one) => ({ ...one, completed: one.completed + 1 })) };
          }),
      },
    }),
  },
  {
    name: "digest-not-checked",
    says: "a pull does not compare the digest of what arrived",
    profile: "swarm",
    seedsMax: 120,
    make: () => ({ plane: { skipsDigest: true } }),
  },
  {
    name: "file-not-synced",
    says: "a checkpoint is durable before its files are",
    profile: "swarm",
    seedsMax: 120,
    make: () => ({ disk: { skipsFileSync: true } }),
  },
  {
    name: "directory-not-synced",
    says: "a checkpoint is durable before its name is",
    profile: "swarm",
    seedsMax: 120,
    make: () => ({ disk: { skipsDirectorySync: true } }),
  },
];
