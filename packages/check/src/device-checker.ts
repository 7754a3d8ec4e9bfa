/** Devices: none has two holders, in the table of the controller and among the processes that live (F8). */
import { type ControllerState, ranksOf } from "@muster/machines/controller";
import { processNameOf } from "@muster/protocol";
import type { Judge } from "./judge.ts";
import type { Mortal } from "./observed.ts";

/** A process on a host. */
export interface Placed extends Mortal {
  readonly host: string;
}

interface Holder {
  readonly process: Placed;
  readonly devices: readonly string[];
}

/** The model of who has which device. */
export class DeviceChecker {
  readonly #judge: Judge;
  #holders: readonly Holder[] = [];

  constructor(judge: Judge) {
    this.#judge = judge;
  }

  /** A process began with these devices: whoever had one of them has ended by now, also who stands still. */
  bore(process: Placed, devices: readonly string[]): void {
    this.#holders = this.#holders.filter((other) => !other.process.isDead);
    for (const other of this.#holders) {
      const shared = devices.find((device) => other.process.host === process.host && other.devices.includes(device));
      this.#judge.require(
        shared === undefined,
        "F8",
        () => `${process.name} begins with device ${shared} of ${process.host}, which ${other.process.name} still has`,
      );
    }
    if (devices.length > 0) this.#holders = [...this.#holders, { process, devices }];
  }

  /** A decision was journaled: of one node nobody has what another one has, and each has as many as its role needs. */
  decided(before: ControllerState, after: ControllerState): void {
    if (!after.plan.devices || before.fleet.replicas === after.fleet.replicas) return;
    const holders = new Map<string, string>();
    const all = Object.entries(after.fleet.replicas).flatMap(([id, replica]) =>
      replica.health === "RETIRED"
        ? []
        : ranksOf(replica).map(({ node, devices = [] }, rank) => ({
            id: processNameOf(id, rank),
            node,
            devices,
            role: replica.role,
          })),
    );
    for (const { id, node, devices, role } of all) {
      const needed = after.plan.devices[role];
      this.#judge.require(
        devices.length === needed,
        "F8",
        () => `${id} on ${node} has ${devices.length} devices, it needs ${needed}`,
      );
      for (const device of devices) {
        const holder = holders.get(`${node} ${device}`);
        this.#judge.require(
          holder === undefined,
          "F8",
          () => `${id} and ${holder} both have device ${device} of ${node}`,
        );
        holders.set(`${node} ${device}`, id);
      }
    }
  }
}
