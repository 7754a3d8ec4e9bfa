/** How many replicas there should be, and the nodes that run them. */
import type { SeenStatus } from "@muster/client";
import { useState } from "preact/hooks";
import type { Wish } from "./wish.ts";

type Ask = ((wish: Wish) => void) | null;

export function Fleet({ status: { fleet }, ask }: { readonly status: SeenStatus; readonly ask: Ask }) {
  const roles = Object.entries(fleet.wanted) as [string, number][];
  return (
    <section>
      <h2>Fleet</h2>
      <div class="fleet">
        {roles.map(([role, wanted]) => (
          <Scale key={role} role={role} wanted={wanted} healthy={fleet.totals[role]?.HEALTHY ?? 0} ask={ask} />
        ))}
      </div>
      {fleet.nodes.length > 0 && (
        <ul class="nodes">
          {fleet.nodes.map((node) => (
            <li key={node.id} class={node.cordoned ? "off" : ""}>
              <b>{node.id}</b> <span>on {node.host}</span> <span>{node.replicas} replicas</span>
              {node.devices.length > 0 && <span>devices {node.devices.join(", ")}</span>}
              {node.signs.map((sign) => (
                <span class="bad" key={sign}>
                  {sign}
                </span>
              ))}
              {ask && <Cordon id={node.id} isCordoned={node.cordoned} ask={ask} />}
            </li>
          ))}
        </ul>
      )}
      {fleet.nodes.length === 0 && (
        <p class="none">No node: replicas of this job are started by hand, so they cannot be scaled from here.</p>
      )}
    </section>
  );
}

function Scale({ role, wanted, healthy, ask }: { role: string; wanted: number; healthy: number; ask: Ask }) {
  const [count, setCount] = useState<number | null>(null);
  const next = count ?? wanted;
  const wish = (): Wish => ({
    ...{ kind: "fleet.scale", body: { [role]: next } },
    question: {
      title: `Scale ${role} to ${next}?`,
      text:
        next < wanted
          ? `${wanted - next} of ${wanted} ${role} replicas hand back their work and leave.`
          : `${next - wanted} more ${role} replicas are started where nodes have room.`,
      ...{ yes: "Scale", isGrave: false },
    },
  });
  return (
    <div class="scale">
      <b>{role}</b>
      <span class={healthy < wanted ? "bad" : ""}>
        {healthy} of {wanted} healthy
      </span>
      {ask && (
        <span class="stepper">
          <button
            type="button"
            aria-label={`fewer ${role} replicas`}
            disabled={next === 0}
            onClick={() => setCount(next - 1)}
          >
            −
          </button>
          <output>{next}</output>
          <button type="button" aria-label={`more ${role} replicas`} onClick={() => setCount(next + 1)}>
            +
          </button>
          <button
            type="button"
            class="primary"
            disabled={next === wanted}
            onClick={() => {
              ask(wish());
              setCount(null);
            }}
          >
            Scale
          </button>
        </span>
      )}
    </div>
  );
}

/** Keeps new work away, or lets it come again. */
export function Cordon({ id, isCordoned, ask }: { id: string; isCordoned: boolean; ask: (wish: Wish) => void }) {
  const verb = isCordoned ? "Uncordon" : "Cordon";
  const text = isCordoned ? `New work may come to ${id} again.` : `${id} gets no new work; what it has goes on.`;
  const question = { title: `${verb} ${id}?`, text, yes: verb, isGrave: false };
  return (
    <button
      type="button"
      onClick={() => ask({ kind: isCordoned ? "fleet.uncordon" : "fleet.cordon", body: { id }, question })}
    >
      {verb}
    </button>
  );
}
