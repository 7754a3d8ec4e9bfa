/** A trainer and the replicas that stand in a chain behind it, each a process on a test host of its own. */
import type { SectionInfo } from "@muster/collectives";
import type { TestHost } from "@muster/runtime";
import { type Answer, endMembers, Member, sharedClock } from "../members.ts";

/** Where the chain runs, and what crosses it. */
export interface ChainOptions {
  /** The first one is the trainer's. */
  readonly hosts: readonly TestHost[];
  readonly bytes: number;
  /** Existing folder for sockets. */
  readonly socketDir: string;
}

/** What happens to the replica in the middle of the chain while a version crosses. */
export interface Mishap {
  readonly kind: "killed" | "frozen";
  /** Seconds from the beginning. */
  readonly after: number;
}

/** How long a version took to all replicas that could have it. */
export interface Crossing {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

interface Version {
  readonly id: { readonly lineage: number; readonly version: number };
  readonly sections: readonly SectionInfo[];
}

/** Versions that a store keeps. A replica that has had as many has all its memory. */
const slots = 2;

/** A running chain; `open` it, and `close` it. */
export class Chain {
  readonly #options: ChainOptions;
  readonly #members: Member[] = [];
  readonly #addresses: string[] = [];
  /** The versions that everyone keeps, newest last. */
  #versions: Version[] = [];
  #published = 0;

  private constructor(options: ChainOptions) {
    this.#options = options;
  }

  /** Starts the processes, and sends the versions that make their memory warm. */
  static async open(options: ChainOptions, signal: AbortSignal): Promise<Chain> {
    const chain = new Chain(options);
    signal.addEventListener("abort", () => void chain.close(), { once: true });
    try {
      await Promise.all(options.hosts.map((_, place) => chain.#start(place)));
      for (let i = 0; i < slots; i++) await chain.send();
    } catch (error) {
      await chain.close();
      throw error;
    }
    return chain;
  }

  /** Sends the next version down the chain. A replica that is killed has a successor afterwards, one that is frozen goes on. */
  async send(mishap?: Mishap): Promise<Crossing> {
    const [source, ...replicas] = this.#members;
    const { bytes } = this.#options;
    const id = { lineage: 0, version: ++this.#published };
    const published = await source?.call("publish", { id, bytes });
    const version = { id, sections: published?.value as readonly SectionInfo[] };
    this.#versions = [...this.#versions, version].slice(-slots);
    const startedAt = sharedClock();
    const pulls = replicas.map((_, i) => this.#pull(i + 1, version));
    const answers = mishap ? await this.#endure(mishap, pulls) : await Promise.all(pulls);
    return {
      seconds: Math.max(...answers.map(({ endedAt }) => endedAt)) - startedAt,
      cpuSeconds: answers.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
    };
  }

  /** Ends the processes. */
  async close(): Promise<void> {
    await endMembers(this.#members);
  }

  /** @returns The answers of the others. */
  async #endure({ kind, after }: Mishap, pulls: readonly Promise<Answer>[]): Promise<readonly Answer[]> {
    const place = Math.ceil(pulls.length / 2);
    const victim = this.#members[place];
    // Whether it had the version before it was struck makes no difference: a small one may be faster.
    const end = pulls[place - 1]?.catch(() => null);
    const others = pulls.filter((_, i) => i !== place - 1);
    let isStruck = false;
    const timer = setTimeout(() => {
      isStruck = true;
      victim?.process.kill(kind === "killed" ? "SIGKILL" : "SIGSTOP");
    }, after * 1000);
    try {
      const answers = await Promise.all(others);
      clearTimeout(timer);
      if (kind === "frozen") victim?.process.kill("SIGCONT");
      await end;
      if (kind === "killed" && isStruck) await this.#replace(place);
      return answers;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Starts a replica in the place of a dead one, and gives it what the others have. */
  async #replace(place: number): Promise<void> {
    await this.#start(place);
    for (const version of this.#versions) await this.#pull(place, version);
  }

  async #start(place: number): Promise<void> {
    const host = this.#options.hosts[place];
    if (!host) throw new RangeError("no such place");
    const member = new Member("weights/member", host.wrapper);
    this.#members[place] = member;
    const { bytes, socketDir } = this.#options;
    const opened = await member.call("open", {
      member: `m${place}`,
      socketDir,
      tcpHost: host.address,
      slotBytes: bytes + 4096,
      delta: { mode: "never" },
    });
    const [, address = ""] = opened.value as readonly string[];
    this.#addresses[place] = address;
  }

  /** Whoever stands before it in the chain, nearest first. */
  #pull(place: number, { id, sections }: Version): Promise<Answer> {
    const holders = this.#addresses.slice(0, place).reverse();
    const member = this.#members[place];
    if (!member) throw new RangeError("no such place");
    return member.call("map", { id, bytes: this.#options.bytes, sections, holders });
  }
}
