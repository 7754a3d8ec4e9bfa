/** All replicas: role, health, version, phase and why; and what may be done with each. */
import type { SeenStatus } from "@muster/client";
import { useState } from "preact/hooks";
import type { JobFold } from "../view/fold.ts";
import { isWell, type ReplicaRow, rowsOf } from "../view/rows.ts";
import { seconds } from "../view/standing.ts";
import { Cordon } from "./fleet.tsx";
import { bytes, count, dash, plural } from "./format.ts";
import type { Wish } from "./wish.ts";

interface Props {
  readonly status: SeenStatus;
  readonly known: JobFold;
  readonly ask: ((wish: Wish) => void) | null;
}

const rowsMax = 200;

export function Replicas({ status, known, ask }: Props) {
  const [filter, setFilter] = useState("");
  const all = rowsOf(status, known.why);
  const wanted = filter.trim().toLowerCase();
  const found = all.filter((row) =>
    [row.id, row.role, row.health, row.node ?? "", row.phase ?? ""].some((text) => text.toLowerCase().includes(wanted)),
  );
  const left = status.membersLeftOut + Math.max(0, found.length - rowsMax);
  return (
    <section>
      <div class="head">
        <h2>Replicas</h2>
        <input
          type="search"
          placeholder="filter by id, role, health, node"
          aria-label="filter replicas"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </div>
      <Engines status={status} />
      <table class="rows" aria-label="replicas">
        <thead>
          <tr class="row title">
            {["replica", "health", "weights", "phase", "place", "last heard", ""].map((name) => (
              <th key={name}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {found.slice(0, rowsMax).map((row) => (
            <Row key={row.id} row={row} newest={status.version} ageMs={status.ageMs} ask={ask} />
          ))}
        </tbody>
      </table>
      {found.length === 0 && <p class="none">{all.length === 0 ? "No replica yet." : "No replica matches."}</p>}
      {left > 0 && <p class="none">{count(left)} more are not shown; those that are well are left out first.</p>}
    </section>
  );
}

/** What trainers and samplers compute with, by kind. Several kinds of one role may compute other bits than each other. */
function Engines({ status: { engines = [], samplers = [] } }: { readonly status: SeenStatus }) {
  const kinds = [
    ...engines.map((kind) => ({ role: "trainer", isOneOf: engines.length, ...kind })),
    ...samplers.map((kind) => ({ role: "sampler", isOneOf: samplers.length, ...kind })),
  ];
  if (kinds.length === 0) return null;
  return (
    <ul class="engines" aria-label="engines">
      {kinds.map(({ role, isOneOf, build, fingerprint, members }) => (
        <li key={`${role} ${build} ${fingerprint}`} class={isOneOf > 1 ? "bad" : ""}>
          {plural(members, role)}: build <code>{build}</code>, fingerprint <code>{fingerprint}</code>
        </li>
      ))}
    </ul>
  );
}

function Row({
  row,
  newest,
  ageMs,
  ask,
}: {
  row: ReplicaRow;
  newest: number | null;
  ageMs: number;
  ask: Props["ask"];
}) {
  const { id, role, health, node, devices, version, phase, order, beatAgeMs, rssBytes, why, deaths, isCordoned } = row;
  const behind = version !== null && newest !== null && version < newest ? newest - version : 0;
  const place = [node ?? dash, devices.length > 0 ? `devices ${devices.join(", ")}` : ""].filter(Boolean).join(" · ");
  return (
    <tr class={`row ${isWell(row) ? "" : "ill"}`} data-replica={id}>
      <td>
        <b>{id}</b> <small>{role}</small>
      </td>
      <td>
        <i class={`dot ${health}`} /> {health}
        {isCordoned ? ", cordoned" : ""}
        {deaths > 0 ? <small>{plural(deaths, "death")}</small> : null}
      </td>
      <td>
        {version === null ? dash : `v${version}`}
        {behind > 0 ? <small>{behind} behind</small> : null}
      </td>
      <td>
        {phase ?? dash}
        {order ? <small>owes {order}</small> : null}
      </td>
      <td>{place}</td>
      <td>
        {beatAgeMs === null ? dash : `${seconds(beatAgeMs + ageMs)} ago`}
        {rssBytes === null ? null : <small>{bytes(rssBytes)}</small>}
      </td>
      <td class="actions">{ask && <Actions row={row} ask={ask} />}</td>
      {why && <td class="why">{why}</td>}
    </tr>
  );
}

function Actions({ row: { id, role, isManaged, isCordoned }, ask }: { row: ReplicaRow; ask: (wish: Wish) => void }) {
  if (role === "node") return null;
  const drain: Wish = {
    ...{ kind: "replica.drain", body: { id, reason: "drained on the dashboard" } },
    question: {
      title: `Drain ${id}?`,
      text: `${id} finishes or hands back its work, and leaves.`,
      yes: "Drain",
      isGrave: false,
    },
  };
  const replace: Wish = {
    ...{ kind: "replica.replace", body: { id } },
    question: {
      title: `Replace ${id}?`,
      text: `Another replica starts first; when it is ready ${id} drains.`,
      yes: "Replace",
      isGrave: false,
    },
  };
  const kill: Wish = {
    ...{ kind: "replica.kill", body: { id, signal: "SIGKILL" } },
    question: {
      title: `Kill ${id}?`,
      text: `SIGKILL ends its process at once. Nothing is lost: its work goes to others, and its node starts it again.`,
      ...{ yes: "Kill", isGrave: true },
    },
  };
  return (
    <>
      <button type="button" onClick={() => ask(drain)}>
        Drain
      </button>
      {isManaged && <Cordon id={id} isCordoned={isCordoned} ask={ask} />}
      {isManaged && (
        <button type="button" onClick={() => ask(replace)}>
          Replace
        </button>
      )}
      {isManaged && (
        <button type="button" class="grave" onClick={() => ask(kill)}>
          Kill
        </button>
      )}
    </>
  );
}
