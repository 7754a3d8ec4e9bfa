/** The end of a phase: a job that only samples has nothing left to sample, or one that only trains has nothing left to train. It stays up until it hears what is next. */
import type { Body } from "@muster/protocol";
import { sizeOf, valuesOf } from "../../table/table.ts";
import { announce, type Change } from "../events.ts";
import { withGroups } from "../groups/leases.ts";
import { isSettled } from "../groups/ledger.ts";
import { stalenessOf } from "../settings.ts";
import { groupsIn, stepsOf } from "../sizes.ts";
import type { ControllerState, StepGroups } from "../state.ts";
import type { JobPhase } from "./phase-state.ts";

/** True when nobody can go on before the operator says what is next: no time counts against anybody. Pure. */
export function isPhaseOver(state: ControllerState): boolean {
  return overOf(state) !== null;
}

/** What a phase is over with; `null` while it is not. */
interface Over {
  readonly jobPhase: JobPhase;
  readonly version: number;
  /** The groups of the step that is next. */
  readonly own: StepGroups;
}

function overOf(state: ControllerState): Over | null {
  const { jobPhase, weights, ending, step, evaluation, groups } = state;
  if (!jobPhase || !weights || ending || evaluation || step.state !== "sampling" || step.step > stepsOf(state))
    return null;
  const own = groups[step.step];
  if (!own) return null;
  const isOver =
    jobPhase.phase === "rollout"
      ? Object.entries(groups).every(
          ([key, each]) => isSettled(each, groupsIn(state, Number(key))) || !isSampledNow(state, Number(key)),
        )
      : !isSettled(own, groupsIn(state, step.step)) && !isSampling(state);
  return isOver ? { jobPhase, version: weights.version, own } : null;
}

/** False for a step that is too far ahead, though some of it is sampled, as after the job went back. */
function isSampledNow(state: ControllerState, number: number): boolean {
  return number - state.step.step <= stalenessOf(state, number);
}

/** Says that a phase is over, or goes on with what is there where the operator allows that. Pure. */
export function planPhase(state: ControllerState): Change<ControllerState> | null {
  const { step, plan } = state;
  const over = overOf(state);
  if (!over) return null;
  const { jobPhase, version, own } = over;
  const there = sizeOf(own.receipts);
  const size = groupsIn(state, step.step);
  const { partial } = jobPhase;
  if (jobPhase.phase === "update" && partial?.step === step.step && there > 0 && there / size >= partial.quorum)
    return giveUpMissing(state, own, partial.quorum);
  const told = `${step.step} ${there} ${partial?.step === step.step ? partial.quorum : ""}`;
  if (jobPhase.told === told) return null;
  const body: Body<"phase.ended"> = {
    ...{
      phase: jobPhase.phase,
      step: step.step,
      version,
      groups: there,
      of: size,
    },
    reason:
      jobPhase.phase === "rollout"
        ? `all groups of step ${step.step} are sampled${plan.stalenessMax > 0 ? ", and of those that may be sampled now" : ""}`
        : `${there} of ${size} groups of step ${step.step} are there, and this phase samples none`,
  };
  return { state: { ...state, jobPhase: { ...jobPhase, told } }, effects: [announce("phase.ended", body)] };
}

/** Work of a lease may still come. */
function isSampling({ leases }: ControllerState): boolean {
  return valuesOf(leases).some(({ items }) => items.some(({ purpose }) => purpose === "train"));
}

function giveUpMissing(state: ControllerState, own: StepGroups, quorum: number): Change<ControllerState> {
  const { step, plan, ledger } = state;
  const size = groupsIn(state, step.step);
  const missing = Array.from({ length: size }, (_, index) => index).filter(
    (index) => !own.receipts[index] && !own.quarantined.includes(index),
  );
  const counted = { ...ledger, quarantined: ledger.quarantined + missing.length * plan.groupSize };
  const given = { ...own, queue: [], quarantined: [...own.quarantined, ...missing] };
  const coverage = (size - given.quarantined.length) / size;
  const detail = `step ${step.step} is trained on ${Math.floor(100 * coverage)} % of its groups, as the quorum of ${Math.round(100 * quorum)} % allows: ${missing.length} are missing`;
  return {
    state: withGroups({ ...state, ledger: counted }, step.step, given),
    effects: [
      announce("step.partial", { step: step.step, missing, coverage, quorum }),
      announce("alarm.raised", { alarm: "coverage", detail }),
    ],
  };
}
