/** Nodes and the processes that have their places there: all ranks of a replica count, wherever rank 0 is. */
import { describe, expect, it } from "vitest";
import { FleetChecker } from "../src/fleet-checker.ts";
import { decisionOf, Trial } from "./support/decisions.ts";

const capacity = { policy: null, rollout: null, checkpoint: null };
const nodeRow = { incarnation: "i", capacity, capabilities: ["ranks"], revision: 1, acked: 1, signs: [], assigned: "" };
const nodeMember = (id: string, health = "healthy", devices = ["0", "1", "2", "3"]) => ({
  ...{ id, role: "node", incarnation: "i", health, devices },
});
const replica = (role: string, nodes: readonly string[], devices: readonly string[]) => ({
  ...{ role, node: nodes[0], devices: [devices[0]], health: "HEALTHY", process: null, ended: 0, leaving: false },
  replacedBy: null,
  ...(nodes.length > 1
    ? { group: { ranks: nodes.slice(1).map((node, i) => ({ node, devices: [devices[i + 1]], process: null })) } }
    : {}),
});

interface Given {
  readonly replicas: Readonly<Record<string, object>>;
  readonly nodes?: Readonly<Record<string, object>>;
  readonly processes?: number;
  readonly health?: string;
}

/** Tables of a job with a sampler `r` on node `a`, which leaves, and another node `b`. */
const stateOf = ({ replicas, nodes = { a: nodeRow, b: nodeRow }, processes = 1, health = "healthy" }: Given) => ({
  ...{ nowMs: 0, term: 1, ending: null, mesh: { epoch: 1 } },
  plan: {
    devices: { policy: 1, rollout: 1, checkpoint: 0 },
    processes: { policy: 2, rollout: processes, checkpoint: 1 },
  },
  members: {
    a: nodeMember("a", "draining"),
    b: nodeMember("b"),
    r: { id: "r", role: "rollout", incarnation: "i", health },
  },
  fleet: { replicas, nodes, cordoned: [], commands: {}, wanted: { policy: 1, rollout: 1, checkpoint: 0 } },
});

/** What is found when `r` is told to leave without a successor. */
function foundOf(given: Given): readonly string[] {
  const trial = new Trial();
  const checker = new FleetChecker({ nowMs: 0, after: () => {} }, trial.judge, 0);
  const [before, after] = [stateOf(given), stateOf({ ...given, health: "draining" })];
  checker.decided(decisionOf("controller.tick", before, { ...after, fleet: before.fleet }));
  return trial.broken;
}

describe("what runs on a node that leaves (F3)", () => {
  const alone = { r: replica("rollout", ["a"], ["0"]) };

  it("goes without a successor only where no other node has room", () => {
    expect(foundOf({ replicas: alone })).toEqual(["F3"]);
  });

  it("has no room where the devices of a node belong to other ranks than rank 0", () => {
    const trainer = replica("policy", ["a", "b", "b", "b", "b"], ["1", "0", "1", "2", "3"]);
    expect(foundOf({ replicas: { ...alone, p: trainer } })).toEqual([]);
    const smaller = replica("policy", ["a", "b", "b", "b"], ["1", "0", "1", "2"]);
    expect(foundOf({ replicas: { ...alone, p: smaller } })).toEqual(["F3"]);
  });

  it("of several processes needs room for all of them, on a node that knows of ranks", () => {
    const several = { r: replica("rollout", ["a", "a"], ["0", "1"]) };
    expect(foundOf({ replicas: several, processes: 2 })).toEqual(["F3"]);
    expect(foundOf({ replicas: several, processes: 5 })).toEqual([]);
    const { capabilities: _, ...old } = nodeRow;
    expect(foundOf({ replicas: several, processes: 2, nodes: { a: nodeRow, b: old } })).toEqual([]);
  });
});

it("a rank on a node that does not say that it can run ranks is found (F5)", () => {
  const { capabilities: _, ...old } = nodeRow;
  const placed = (nodes: Given["nodes"]): readonly string[] => {
    const trial = new Trial();
    const checker = new FleetChecker({ nowMs: 0, after: () => {} }, trial.judge, 0);
    const state = stateOf({ replicas: { r: replica("rollout", ["a", "b"], ["0", "0"]) }, ...(nodes ? { nodes } : {}) });
    const before = { ...state, fleet: { ...state.fleet, replicas: {} } };
    checker.decided(decisionOf("controller.tick", before, state));
    return trial.broken;
  };
  expect(placed({ a: nodeRow, b: old })).toEqual(["F5"]);
  expect(placed({ a: nodeRow, b: nodeRow })).toEqual([]);
});
