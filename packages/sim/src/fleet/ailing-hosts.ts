/** Hosts that show signs of a failure to come, and how their nodes see them. */
import type { HostSigns } from "@muster/actors/internal";
import type { World } from "../world/world.ts";

const signs = [{ kind: "heat" as const, detail: "the simulated host is hot" }];

/** Which nodes live on a host that is ill. */
export class AilingHosts {
  readonly #world: World;
  readonly #nodes = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  /** The host of a node is ill for a time. */
  ail(node: string, forMs: number): void {
    this.#nodes.add(node);
    this.#world.after(forMs, () => this.#nodes.delete(node));
  }

  /** What the node sees. */
  signsOf(node: string): HostSigns {
    return { read: () => Promise.resolve(this.#nodes.has(node) ? signs : []), close() {} };
  }
}
