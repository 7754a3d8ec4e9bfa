/**
 * A model of everything that carries bytes: weights, collectives, stored groups. Weights are the digest of all they were trained on, and
 * a group is the digest of the weights it was sampled with, so two runs trained the same way exactly when their digests are equal.
 */
import type { Body, Section } from "@muster/protocol";
import type { VirtualTime } from "./virtual-time.ts";

/** Versions that a replica serves at a time. */
const slots = 2;

/** Digest of a text (FNV-1a). */
export function digestOf(text: string): string {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return (value >>> 0).toString(16).padStart(8, "0");
}

/** The sections of weights with this digest. */
export function sectionsOf(digest: string): Section[] {
  return [
    { name: "weights", bytes: 64, digest: `w-${digest}` },
    { name: "optimizer", bytes: 64, digest: `o-${digest}` },
  ];
}

/** The bytes that one life of a replica has. */
export interface Memory {
  readonly id: string;
  readonly incarnation: string;
  /** Digest of the live weights. */
  live: string;
  liveKey: string;
  candidate: string;
  /** Digests by `lineage.version`, newest last. */
  readonly served: Map<string, string>;
  /** Those of which the `training` part is published, too. */
  readonly whole: Set<string>;
  isReachable: boolean;
}

/** A version, and how much of it is published. */
interface Published {
  readonly key: string;
  readonly digest: string;
  readonly isWhole: boolean;
}

/** Makes a digest live and serves it. */
export function serve(memory: Memory, { key, digest, isWhole }: Published): void {
  memory.live = digest;
  memory.liveKey = key;
  memory.served.delete(key);
  memory.served.set(key, digest);
  for (const old of [...memory.served.keys()].slice(0, -slots)) memory.served.delete(old);
  if (isWhole) memory.whole.add(key);
  for (const old of memory.whole) if (!memory.served.has(old)) memory.whole.delete(old);
}

/** What became of a collective: nothing missing, or the members that did not arrive. */
type Outcome = readonly string[];

interface Gathering {
  readonly members: readonly string[];
  readonly arrived: Map<string, (missing: Outcome) => void>;
  readonly cancelDeadline: () => void;
}

/** Collectives, the groups stream, and who can be reached. */
export class DataPlane {
  readonly memories = new Map<string, Memory>();
  /** While true, pulls that begin do not end: their source is silent and does not hang up. */
  arePullsStuck = false;
  readonly #time: VirtualTime;
  readonly #collectiveMs: number;
  readonly #stored = new Map<number, ReadonlyMap<string, string>>();
  readonly #gatherings = new Map<string, Gathering>();
  /** Epochs whose communicator is of no use any more, and why. */
  readonly #broken = new Map<number, Outcome>();
  readonly #membersOf = new Map<number, readonly string[]>();
  #lastSeq = 0;

  constructor(time: VirtualTime, collectiveMs: number) {
    this.#time = time;
    this.#collectiveMs = collectiveMs;
  }

  /** The digest of which some holder serves all parts under a key, at the places that were named, or `null`. */
  findWhole(holders: Body<"weights.pull">["holders"], key: string): string | null {
    const named = holders.filter(({ addresses, training }) => (training ?? addresses).length > 0);
    return this.find(
      named.filter(({ id }) => this.memories.get(id)?.whole.has(key)),
      key,
    );
  }

  /** The digest that some holder serves under a key, or `null`. */
  find(holders: Body<"weights.pull">["holders"], key: string): string | null {
    const source = holders
      .map(({ id }) => this.memories.get(id))
      .find((held) => held?.isReachable && held.served.has(key));
    return source?.served.get(key) ?? null;
  }

  /** Joins the communicator of an epoch. */
  join(self: Memory, body: Body<"mesh.build">, done: (missing: Outcome) => void): void {
    const members = body.members.map(({ incarnation }) => incarnation);
    this.#membersOf.set(body.epoch, members);
    this.#gather(self, { epoch: body.epoch, key: `mesh ${body.epoch}`, members }, done);
  }

  /** Reduces a step with the mesh of its epoch. */
  reduce(self: Memory, body: Body<"step.run">, done: (missing: Outcome) => void): void {
    const members = this.#membersOf.get(body.epoch) ?? [];
    const key = `step ${body.step}/${body.attempt}/${body.epoch}`;
    this.#gather(self, { epoch: body.epoch, key, members }, done);
  }

  /** A replica is gone, or left its communicators up to an epoch: whoever waits for it there hears of it. */
  leave(incarnation: string, lastEpoch: number): void {
    for (const [epoch, members] of this.#membersOf) {
      if (epoch > lastEpoch || !members.includes(incarnation) || this.#broken.has(epoch)) continue;
      this.#broken.set(epoch, [incarnation]);
      for (const [key, { members: waiting }] of this.#gatherings)
        if (waiting === members) this.#time.after(20, () => this.#settle(key, [incarnation]));
    }
  }

  /** Stores groups sampled with some weights. @returns The sequence of the message. */
  store(groupIds: readonly string[], live: string): number {
    this.#lastSeq += 1;
    this.#stored.set(this.#lastSeq, new Map(groupIds.map((id) => [id, digestOf(`${live} ${id}`)])));
    return this.#lastSeq;
  }

  /** The digests of the groups of a batch in order of their ids, or `null` when one is not there. */
  read(batch: Body<"step.run">["batch"]): readonly string[] | null {
    const found = batch.flatMap(({ streamSeq, groupIds }) =>
      groupIds.map((id) => [id, this.#stored.get(streamSeq)?.get(id)] as const),
    );
    if (found.some(([, digest]) => digest === undefined)) return null;
    return found.sort(([a], [b]) => (a < b ? -1 : 1)).map(([id, digest]) => `${id}=${digest}`);
  }

  purge(beforeSeq: number): void {
    for (const seq of this.#stored.keys()) if (seq < beforeSeq) this.#stored.delete(seq);
  }

  #gather(
    self: Memory,
    { epoch, key, members }: { epoch: number; key: string; members: readonly string[] },
    done: (missing: Outcome) => void,
  ): void {
    const broken = this.#broken.get(epoch);
    if (broken) {
      this.#time.after(20, () => done(broken));
      return;
    }
    const expire = (): void => {
      const { arrived } = this.#gatherings.get(key) ?? { arrived: new Map() };
      this.#broken.set(epoch, []);
      this.#settle(
        key,
        members.filter((member) => !arrived.has(member)),
      );
    };
    const gathering = this.#gatherings.get(key) ?? {
      members: this.#membersOf.get(epoch) ?? members,
      arrived: new Map<string, (missing: Outcome) => void>(),
      cancelDeadline: this.#time.after(this.#collectiveMs, expire),
    };
    this.#gatherings.set(key, gathering);
    gathering.arrived.set(self.incarnation, done);
    if (gathering.arrived.size === members.length) this.#settle(key, []);
  }

  #settle(key: string, missing: Outcome): void {
    const gathering = this.#gatherings.get(key);
    if (!gathering) return;
    this.#gatherings.delete(key);
    gathering.cancelDeadline();
    for (const done of gathering.arrived.values()) done(missing);
  }
}
