/** The numbers of a job for its metrics page. */
import type { Metrics } from "@muster/base";
import { countOf, imbalanceOf, ledgerOf } from "@muster/machines/controller";
import { memberRoles } from "@muster/protocol";
import type { ControllerSnapshot } from "./journal-replay.ts";

/** Gauges of the job; the imbalance of the ledger is 0 unless there is a bug. */
export function metersOf(metrics: Metrics): (snapshot: ControllerSnapshot) => void {
  const steps = metrics.gauge({ name: "muster_job_steps", help: "Committed steps." });
  const version = metrics.gauge({ name: "muster_job_weight_version", help: "Newest committed weight version." });
  const ledger = metrics.gauge({
    name: "muster_ledger_trajectories",
    help: "Trajectories by account.",
    labels: ["account"],
  });
  const imbalance = metrics.gauge({
    name: "muster_ledger_imbalance",
    help: "Trajectories that no account explains; always 0.",
  });
  const members = metrics.gauge({ name: "muster_job_members", help: "Members of the job by role.", labels: ["role"] });
  return ({ context: { state } }) => {
    steps.set(state.step.step - 1);
    version.set(state.weights?.version ?? 0);
    const counts = ledgerOf(state);
    for (const [account, value] of Object.entries(counts)) ledger.set(value, { account });
    imbalance.set(imbalanceOf(counts));
    for (const role of memberRoles) members.set(countOf(state, role), { role });
  };
}
