/** What a cluster is given beside its world and its scenario: who watches it, and what is not as usual. */
import type { Controller } from "@muster/actors/controller";
import type { ControllerState } from "@muster/machines/controller";
import type { Identity } from "@muster/protocol";
import type { FaultObserver } from "../faults/injector.ts";
import type { AnyNetwork } from "../net/network.ts";
import type { NetworkOptions, WireObserver } from "../net/wire.ts";
import type { MeshObserver } from "../plane/mesh-plane.ts";
import type { SimProcess } from "../world/process.ts";
import type { Bug } from "./bug.ts";
import type { Behind } from "./ports.ts";

/** Who watches a cluster. */
export interface ClusterObserver extends WireObserver, MeshObserver, FaultObserver {
  /** The announced end of the job, or `null`. */
  readonly end: { readonly outcome: string } | null;
  readonly engines: Behind["observer"];
  /** What an operator sees of the job: the fold of its journal. */
  readonly jobState: ControllerState;
  identified(identity: Identity, process: SimProcess): void;
  started(process: SimProcess): void;
  ended(process: SimProcess, how: string): void;
  /** A node started the process of a replica; of one of several processes, in this life of it. */
  bore(
    node: SimProcess,
    child: SimProcess,
    devices: readonly string[],
    rank: { readonly replica: string; readonly life: number } | null,
  ): void;
  /** All processes of one replica begin; they end as one. */
  together(processes: readonly SimProcess[]): void;
  /** A controller acts; `controller.snapshot()` shows its live state. */
  termBegan(process: SimProcess, controller: Controller): void;
}

/** What a cluster is made of, beside its world and its scenario. */
export interface ClusterGiven {
  readonly observer: ClusterObserver;
  readonly bug?: Bug;
  /** Default the simulated network. */
  readonly makeNetwork?: (options: NetworkOptions) => AnyNetwork;
}
