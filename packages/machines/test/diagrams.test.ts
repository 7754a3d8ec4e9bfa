/**
 * Keeps the generated parts of `docs/internals/machines.md` equal to the machines: everything between `<!-- machine: x -->` and
 * `<!-- end -->`. After a change of a machine vitest writes them anew with `-u`.
 */
import { readFileSync } from "node:fs";
import { replicaRoles } from "@muster/protocol";
import { expect, it } from "vitest";
import { planners } from "../src/controller/reconcile.ts";
import { Cluster } from "./cluster.ts";
import { diagramOf, diagramOfChanges, tableOf } from "./diagrams.ts";
import { allMachines } from "./machines.ts";
import { plan } from "./plans.ts";

const page = new URL("../../../docs/internals/machines.md", import.meta.url);

/** The changes of phase that a few eventful jobs go through: the controller's phases are a function of its tables, not a graph. */
function observedPhases(): ReadonlySet<string> {
  const changes = new Set<string>();
  const faults: readonly ((cluster: Cluster) => void)[] = [
    () => {},
    (cluster) => cluster.start("policy", "policy-9"),
    (cluster) => cluster.kill("policy-1"),
    (cluster) => {
      for (const id of ["policy-0", "policy-1"]) cluster.kill(id);
      cluster.start("policy", "policy-2");
    },
    (cluster) => cluster.operate("job.stop", { reason: "asked" }),
  ];
  for (const fault of faults) {
    let phase = "";
    const input = ({ controller }: Cluster): void => {
      const next = controller.context.phase;
      if (phase !== "" && next !== phase) changes.add(`${phase} --> ${next}`);
      phase = next;
    };
    const cluster = new Cluster({ seed: 2, plan, observers: [{ input }] });
    for (const role of replicaRoles) for (let i = 0; i < 2; i++) cluster.start(role, `${role}-${i}`);
    cluster.runUntil(() => cluster.state.step.step === 3 && cluster.state.step.state === "running");
    fault(cluster);
    cluster.runUntil(() => cluster.stopped !== null);
  }
  return changes;
}

function blockOf(name: string): string {
  const machine = allMachines[name];
  if (!machine) throw new Error(`there is no machine "${name}"; there are ${Object.keys(allMachines).join(", ")}`);
  const diagram = name === "controller" ? diagramOfChanges("gathering", observedPhases()) : diagramOf(machine);
  return `${diagram}\n\n${tableOf(machine)}`;
}

it("the page about the machines shows every machine as it is", async () => {
  const text = readFileSync(page, "utf8");
  const shown = [...text.matchAll(/<!-- machine: (\w+) -->/g)].map((match) => match[1]);
  expect(shown.sort()).toEqual(Object.keys(allMachines).sort());
  const current = text.replace(
    /(<!-- machine: (\w+) -->)[\s\S]*?(<!-- end -->)/g,
    (_, start: string, name: string, end: string) => `${start}\n\n${blockOf(name)}\n\n${end}`,
  );
  await expect(current).toMatchFileSnapshot(page.pathname);
});

it("the page names every planner, in the order in which they run", () => {
  const table = readFileSync(page, "utf8").split("| Planner, in their order |")[1]?.split("\n\n")[0] ?? "";
  const named = [...table.matchAll(/^\| `(\w+)`/gm)].map((match) => match[1]);
  expect(named).toEqual(planners.map(({ plan: { name } }) => name));
});
