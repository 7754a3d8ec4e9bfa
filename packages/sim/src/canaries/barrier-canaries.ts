/** Bugs of barriers between the phases of scripts. */
import type { ControllerState } from "@muster/machines/controller";
import type { Scenario } from "../cluster/scenario.ts";
import type { Canary } from "./canary.ts";
import { logicBug } from "./logic-bug.ts";

type Kept = NonNullable<ControllerState["barriers"]>["table"][string];

const where = { profile: "barriers", seedsMax: 10 } as const;

/** The state with each barrier changed; one that becomes `null` is forgotten. The same state when that changes nothing. */
function withEach(state: ControllerState, change: (barrier: Kept) => Kept | null): ControllerState {
  const { barriers } = state;
  if (!barriers) return state;
  let isAsBefore = true;
  const entries = Object.entries(barriers.table).flatMap(([key, barrier]) => {
    const changed = change(barrier);
    isAsBefore &&= changed === barrier;
    return changed ? [[key, changed] as const] : [];
  });
  if (isAsBefore) return state;
  return { ...state, barriers: { ...barriers, table: Object.fromEntries(entries) } };
}

/** Longer than any job. */
const longMs = 86_400_000;

const postponed = (barrier: Kept): Kept =>
  barrier.dueAtMs - barrier.openedAtMs < longMs ? { ...barrier, dueAtMs: barrier.openedAtMs + longMs } : barrier;

/** The same with a deadline that is over at once. */
const hurried = (barrier: Kept): Kept =>
  barrier.dueAtMs - barrier.openedAtMs > 1 ? { ...barrier, dueAtMs: barrier.openedAtMs + 1 } : barrier;

/** Ranks that stay away for longer than their barrier waits, and that it goes on without. */
const ejecting = (scenario: Scenario): Scenario =>
  scenario.script
    ? { ...scenario, script: { ...scenario.script, onMissing: "eject", quorum: 1, awayMs: 90_000 } }
    : scenario;

/** Canaries of barriers. */
export const barrierCanaries: readonly Canary[] = [
  logicBug("ended-barrier-forgotten", "a barrier that has ended is forgotten, and whoever asks again opens it anew", {
    ...where,
    line: { keeps: (after) => withEach(after, (barrier) => (barrier.end ? null : barrier)) },
  }),
  logicBug("barrier-without-deadline", "the deadline of a barrier never comes", {
    ...where,
    shape: (scenario) =>
      scenario.script ? { ...scenario, script: { ...scenario.script, onMissing: "abort", awayMs: 90_000 } } : scenario,
    line: { keeps: (after) => withEach(after, postponed) },
  }),
  logicBug("share-left-out", "the last share of the work that is left is dealt to nobody", {
    ...where,
    line: {
      does: (effect) =>
        effect.type === "announce" && effect.kind === "barrier.ended"
          ? { ...effect, body: { ...effect.body, shares: effect.body.shares.slice(0, -1) } }
          : effect,
    },
  }),
  logicBug("barrier-before-its-time", "a barrier goes on without a rank as soon as enough others are there", {
    ...where,
    shape: ejecting,
    line: { keeps: (after) => withEach(after, hurried) },
  }),
  logicBug("missing-rank-unsaid", "a barrier that goes on without a rank does not say so", {
    ...where,
    shape: ejecting,
    line: {
      does: (effect) =>
        effect.type === "announce" && effect.kind === "barrier.ended"
          ? { ...effect, body: { ...effect.body, missing: [] } }
          : effect,
    },
  }),
];
