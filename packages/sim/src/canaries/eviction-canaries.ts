/** Bugs that evict who lives. */
import type { Canary } from "./canary.ts";
import { logicBug, type WrongLine } from "./logic-bug.ts";

const lastVoterOut: WrongLine = {
  hears: (event, { mesh, members, step }) => {
    const silent = mesh.members.filter((id) => !step.votes[id]);
    const last = silent.length === 1 && mesh.members.length > 1 ? members[silent[0] ?? ""] : undefined;
    if (event.type !== "step.voted" || !last) return event;
    const { id, incarnation } = last;
    const why = { kind: "silence", evidence: "slower than the others", silentMs: 1 } as const;
    return { type: "verdict.dead", atMs: event.atMs, id, incarnation, ...why };
  },
};

/** Canaries about members that nothing speaks against. */
export const evictionCanaries: readonly Canary[] = [
  logicBug("last-voter-evicted", "the member whose vote is the last to arrive is evicted", {
    profile: "quiet",
    seedsMax: 30,
    line: lastVoterOut,
  }),
  logicBug("evicted-long-after", "the same in a job in which somebody was cut off long ago", {
    profile: "quiet",
    seedsMax: 30,
    stage: () => [{ kind: "disconnect", node: "rollout-1", atMs: 1_000, forMs: 500 }],
    shape: (scenario) => ({ ...scenario, safetyMs: 2_000 }),
    line: lastVoterOut,
  }),
  logicBug("evicted-on-nodes", "the same in a job with nodes, after the fleet was changed", {
    profile: "fleet",
    seedsMax: 30,
    stage: () => [
      { kind: "disconnect", node: "rollout-0", atMs: 12_000, forMs: 500 },
      {
        kind: "command",
        atMs: 12_000,
        id: "more",
        command: { kind: "fleet.scale", body: { rollout: 3 } },
        againMs: [],
      },
    ],
    shape: (scenario) => ({ ...scenario, safetyMs: 14_000 }),
    line: lastVoterOut,
  }),
];
