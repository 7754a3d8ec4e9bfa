/** Bugs of the replicas' logic: what they report, through the logic of their role. */
import type { Role } from "@muster/actors";
import type { Body } from "@muster/protocol";
import type { Bug } from "../cluster/bug.ts";
import { type Canary, repeated } from "./canary.ts";

interface Report {
  readonly type: string;
  readonly kind?: string;
  readonly body?: unknown;
}

/** Changes the effects of a role's machine, one after the other. */
function roleBug(make: () => (effect: Report) => readonly Report[]): () => Bug {
  return () => ({
    role: (role: Role): Role => {
      const change = make();
      const step: Role["logic"]["step"] = (snapshot, event) => {
        const next = role.logic.step(snapshot, event);
        return { ...next, effects: (next.effects as readonly Report[]).flatMap(change) as typeof next.effects };
      };
      return { ...role, logic: { ...role.logic, step } };
    },
  });
}

/** What a chunk has still to tell is not counted. */
const untoldNotCounted: Bug = {
  role: (role) => {
    const step: Role["logic"]["step"] = (snapshot, event) => {
      const heard = event.type === "groups.generated" ? { ...event, messages: 0 } : event;
      return role.logic.step(snapshot, heard);
    };
    return { ...role, logic: { ...role.logic, step } };
  },
};

function isHeld(effect: Report): effect is Report & { readonly body: Body<"weights.held"> } {
  return effect.type === "report" && effect.kind === "weights.held";
}

/** Canaries in what replicas say. */
export const roleCanaries: readonly Canary[] = [
  {
    name: "held-said-of-another-version",
    says: "a replica names the version after the one that it holds",
    profile: "quiet",
    seedsMax: 20,
    make: roleBug(() => (effect) => {
      if (!isHeld(effect) || effect.body.version < 1) return [effect];
      return [{ ...effect, body: { ...effect.body, version: effect.body.version - 1 } }];
    }),
  },
  {
    name: "held-said-backwards",
    says: "a replica says again what it held before, after it has said what it holds",
    profile: "quiet",
    seedsMax: 20,
    make: roleBug(() => {
      let last: Report | null = null;
      return (effect) => {
        if (!isHeld(effect)) return [effect];
        const again = last ? [effect, last] : [effect];
        last = effect;
        return again;
      };
    }),
  },
  {
    name: "untold-not-counted",
    says: "a replica begins a chunk whatever it has still to tell of others",
    profile: "broker",
    seedsMax: 30,
    stage: (scenario) => repeated(scenario, 20_000, (atMs) => ({ kind: "broker-stall", atMs, forMs: 9_000 })),
    make: () => untoldNotCounted,
  },
];
