/** What a node tells of the processes that it starts: old news and others' processes change nothing. */
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { applyProcessEnd, applyStarted } from "../src/controller/fleet/apply-node.ts";
import type { FleetReplica } from "../src/controller/fleet/fleet-state.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { Job } from "./fleet-job.ts";
import { reportFrom } from "./states.ts";

const job = new Job().node("n0").node("n1").state;
const id = "rollout-0";
/** A job whose node n0 runs a replica as process 7 of its second life. */
function placed(patch: Partial<FleetReplica> = {}): ControllerState {
  const replica = job.fleet.replicas[id] as FleetReplica;
  const own = { ...replica, node: "n0", process: { pid: 7, life: 2 }, life: 2, ended: 1, deaths: 1, ...patch };
  return { ...job, fleet: { ...job.fleet, replicas: { ...job.fleet.replicas, [id]: own } } };
}

const rowOf = (state: ControllerState): Partial<FleetReplica> => state.fleet.replicas[id] ?? {};
const end = (patch: Partial<Body<"process.exited">> = {}, state = placed(), from = "n0") => {
  const body = { id, host: "h", pid: 7, code: 1, signal: null, life: 2, ...patch };
  return rowOf(applyProcessEnd(state, reportFrom(state, from, { kind: "process.exited", body })).state);
};
const started = (patch: Partial<Body<"process.started">> = {}, state = placed(), from = "n0") => {
  const body = { id, pid: 9, life: 3, ...patch } as Body<"process.started">;
  return rowOf(applyStarted(state, reportFrom(state, from, { kind: "process.started", body })).state);
};

describe("a process of the fleet that ended", () => {
  it("is a death of its replica, unless it left by itself or was to leave", () => {
    expect(end()).toMatchObject({ process: null, ended: 2, deaths: 2, life: 2 });
    expect(end({ code: 0 })).toMatchObject({ process: null, ended: 2, deaths: 1, life: 3 });
    expect(end({ code: null, signal: "SIGKILL" })).toMatchObject({ deaths: 2, life: 2 });
    expect(end({}, placed({ leaving: "stop" as never }))).toMatchObject({ process: null, deaths: 1 });
  });

  it("of an earlier life leaves the one that runs, and takes no life back", () => {
    expect(end({ pid: 5, life: 1 })).toMatchObject({ process: { pid: 7, life: 2 }, ended: 1, life: 2 });
    expect(end({ pid: 5, life: 0, code: 0 })).toMatchObject({ process: { pid: 7, life: 2 }, ended: 1, life: 2 });
    expect(end({ pid: 5, life: 5, code: 0 })).toMatchObject({ process: { pid: 7, life: 2 }, ended: 5, life: 6 });
  });

  it("is known from its node, or by its process from where the replica was before; others change nothing", () => {
    expect(end({ pid: 5 }, placed({ process: null }))).toMatchObject({ process: null, deaths: 2 });
    expect(end({}, placed(), "n1")).toMatchObject({ process: null, deaths: 2 });
    expect(end({ pid: 5 }, placed(), "n1")).toEqual(rowOf(placed()));
    expect(end({ pid: 5 }, placed({ process: null }), "n1")).toEqual(rowOf(placed({ process: null })));
  });
});

describe("a process of the fleet that was started", () => {
  it("is the replica's, with its life", () => {
    expect(started()).toMatchObject({ process: { pid: 9, life: 3 }, life: 3 });
    expect(started({ life: 2 }, placed({ life: 4 }))).toMatchObject({ process: { pid: 9, life: 2 }, life: 4 });
  });

  it("is old news of a life that has ended, and from a node where it is not placed", () => {
    for (const life of [0, 1]) expect(started({ life })).toEqual(rowOf(placed()));
    expect(started({}, placed(), "n1")).toEqual(rowOf(placed()));
    expect(started({ id: "rollout-99" })).toEqual(rowOf(placed()));
  });
});
