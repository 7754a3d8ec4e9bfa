/**
 * A replica that lies: what it says comes under its own name and life, and has the form of what it may say; only the facts in it are wrong
 * (reliability 2, J). Whoever hears it must find out before anything is lost, doubled or trained on that nobody stored.
 */
import type { Random } from "@muster/base";
import { type AnyMessage, decodeMessage, encodeMessage, type Kind } from "@muster/protocol";
import type { AnyNetwork } from "../net/network.ts";

type Plain = Record<string, unknown>;

/** Matters about which a lie is found out today. */
export const refutedLies: readonly Kind[] = [
  "weights.held",
  "weights.failed",
  "mesh.built",
  "mesh.failed",
  "step.voted",
  "groups.completed",
  "groups.saved",
  "groups.returned",
  "evals.completed",
  "checkpoint.failed",
  "replica.draining",
];

/** Every matter about which a replica reports. */
export const allLies: readonly Kind[] = [
  ...refutedLies,
  "replica.register",
  "replica.left",
  "checkpoint.saved",
  "weights.meta",
];

/** Counters of a life end far below this one, so that no lie is taken for something that was said before. */
const seqBase = 2 ** 40;

/** Bodies of which no other one can be made are few: then nothing is said. */
const triesMax = 16;

/** Says what is not so in the names of replicas that live. */
export class Liar {
  readonly #network: AnyNetwork;
  readonly #random: Random;
  #count = 0;

  constructor(network: AnyNetwork, random: Random) {
    this.#network = network;
    this.#random = random;
  }

  /** Takes what was said last about one of these matters, and says it with another fact in it. @returns What was said. */
  lie(about: readonly Kind[]): { readonly kind: Kind; readonly from: string; readonly field: string } | null {
    const said = this.#network.recent.filter(({ subject }) => about.some((kind) => subject.endsWith(`.${kind}`)));
    const reports = said.filter(({ subject }) => subject.split(".")[2] === "reports");
    for (let i = 0; i < triesMax && reports.length > 0; i++) {
      const { subject, data } = reports[this.#random.below(reports.length)] as (typeof reports)[number];
      const message = read(data);
      const field = message && this.#bend(message.body as Plain);
      if (!message || !field) continue;
      const seq = seqBase + ++this.#count;
      const bent = read(encodeMessage({ ...message, id: `lie-${this.#count}`, seq }));
      if (!bent) continue;
      void this.#network.store.publish(subject, encodeMessage(bent), { msgId: bent.id });
      return { kind: bent.kind, from: bent.from, field };
    }
    return null;
  }

  /** Changes one fact in place. @returns Its name. */
  #bend(body: Plain): string | null {
    const leaves = leavesOf(body);
    const leaf = leaves[this.#random.below(Math.max(1, leaves.length))];
    if (!leaf) return null;
    leaf.holder[leaf.key] = this.#otherThan(leaf.holder[leaf.key]);
    return leaf.path;
  }

  #otherThan(fact: unknown): unknown {
    const random = this.#random;
    if (typeof fact === "boolean") return !fact;
    if (typeof fact === "number") {
      const others = [0, 1, fact + 1, fact - 1, fact * 1_000 + 7, 2 ** 40].filter(
        (other) => other >= 0 && other !== fact,
      );
      return others[random.below(others.length)];
    }
    if (fact === "commit") return "abort";
    const text = String(fact);
    // A text is a digest, a name or a path: the same with another end.
    return text.length === 0 ? "x" : `${text.slice(0, -1)}${text.endsWith("1") ? "2" : "1"}`;
  }
}

function read(data: Uint8Array): AnyMessage | null {
  try {
    return decodeMessage(data);
  } catch {
    return null;
  }
}

interface Leaf {
  readonly holder: Plain;
  readonly key: string;
  readonly path: string;
}

/** Every number, text and yes or no of a body. */
function leavesOf(holder: Plain, path = ""): readonly Leaf[] {
  return Object.entries(holder).flatMap(([key, value]) => {
    const name = path === "" ? key : `${path}.${key}`;
    if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value))
      return leavesOf(value as Plain, name);
    return ["number", "string", "boolean"].includes(typeof value) ? { holder, key, path: name } : [];
  });
}
