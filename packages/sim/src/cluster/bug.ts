/** What a deliberate bug replaces, to see that the checkers see it. */

import type { Ports, Role } from "@muster/actors";
import type { ControllerLogic } from "@muster/actors/controller";
import type { RankTraining } from "@muster/engine";
import type { KeeperBug } from "../fleet/sim-keeper.ts";
import type { WireBug } from "../net/wire.ts";
import type { MeshBug } from "../plane/mesh-plane.ts";
import type { DiskBug, SimDisk } from "../plane/sim-disk.ts";
import type { PlaneBug } from "../plane/version-plane.ts";
import type { SimProcess } from "../world/process.ts";

/** A deliberate bug: what it replaces. */
export interface Bug {
  readonly wire?: WireBug;
  readonly plane?: PlaneBug;
  readonly disk?: DiskBug;
  readonly mesh?: MeshBug;
  readonly role?: (role: Role, process: SimProcess) => Role;
  readonly logic?: ControllerLogic;
  /** Most bytes of a record of the journal, whatever the broker takes. */
  readonly recordBytes?: number;
  readonly keeper?: KeeperBug;
  /** False: stores of checkpoints never find a leftover old enough to remove it. */
  readonly sweeps?: false;
  /** What a process of a trainer of several does with its shard. */
  readonly training?: (training: RankTraining, process: SimProcess) => RankTraining;
  readonly ports?: (ports: Ports, process: SimProcess, disk: SimDisk) => Ports;
  /** What everybody, the checkers too, takes for the digest of bytes. */
  readonly digest?: (bytes: Uint8Array) => string;
}
