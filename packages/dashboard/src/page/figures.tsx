/** The figures of the job: how far it is, what it has learnt, and the ledger. */
import type { SeenStatus } from "@muster/client";
import type { JobFold } from "../view/fold.ts";
import { count, dash, plural, share } from "./format.ts";

interface Props {
  readonly status: SeenStatus | null;
  readonly known: JobFold;
}

/** The last that held-out rows said: how many are answered right, and the loss on them. */
function heldOutNote({ evals, steps }: JobFold): string {
  const held = evals.at(-1);
  const loss = steps.findLast(({ heldOutLoss }) => heldOutLoss !== null)?.heldOutLoss ?? null;
  const parts = [...(held ? [share(held.share)] : []), ...(loss === null ? [] : [`loss ${loss.toFixed(3)}`])];
  return parts.length > 0 ? `held-out ${parts.join(", ")}` : "no held-out figure yet";
}

export function Figures({ status, known }: Props) {
  const last = known.steps.at(-1);
  const step = status?.step ?? last?.step ?? 0;
  const steps = status?.steps ?? 0;
  const ledger = status?.ledger;
  const incidents = status?.incidents;
  return (
    <>
      <div class="bar" role="progressbar" aria-valuenow={step} aria-valuemin={0} aria-valuemax={steps}>
        <i style={{ width: `${steps > 0 ? (100 * step) / steps : 0}%` }} />
      </div>
      <dl class="figures">
        <Figure
          name="step"
          value={`${count(step)} / ${steps > 0 ? count(steps) : dash}`}
          note={status ? `${status.phase}, attempt ${status.attempt}` : ""}
        />
        <Figure
          name={last?.reward === null ? "loss" : "reward"}
          value={last ? (last.reward ?? last.loss).toFixed(3) : dash}
          note={heldOutNote(known)}
        />
        <Figure
          name="weights"
          value={status?.version == null ? dash : `v${status.version}`}
          note={status ? `lineage ${status.lineage}` : ""}
        />
        <Figure
          name="mesh"
          value={status ? `epoch ${status.epoch}` : dash}
          note={status ? plural(status.mesh.length, "trainer") : ""}
        />
        <Figure
          name="trained"
          value={ledger ? count(ledger.trained) : dash}
          note={
            ledger
              ? `of ${count(ledger.admitted)} admitted; ${count(ledger.pending)} pending, ${count(ledger.aborted)} aborted, ${count(ledger.quarantined)} given up`
              : ""
          }
        />
        <Figure
          name="incidents"
          value={incidents ? count(Object.values(incidents.counts).reduce((sum, n) => sum + n, 0)) : dash}
          note={
            incidents
              ? `${incidents.open} open${incidents.ettr === null ? "" : `; ${share(incidents.ettr)} of the time productive`}`
              : ""
          }
        />
      </dl>
    </>
  );
}

function Figure({ name, value, note }: { readonly name: string; readonly value: string; readonly note: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value}
        <small>{note}</small>
      </dd>
    </div>
  );
}
