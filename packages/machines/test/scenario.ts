/**
 * Golden conversations: a script of commands (lines that begin with `>`), and under each what was said because of it. `p0 → x` is a report
 * as the controller takes it, `p0 ← x` an order, `! x` a public fact, `= x` the phase of the job.
 */
import type { AnnounceEffect, CommandEffect, ControllerEvent, ControllerPlan } from "@muster/machines/controller";
import type { ReplicaRole, WorkItem } from "@muster/protocol";
import { Cluster } from "./cluster.ts";
import { plan } from "./plans.ts";

/** Three steps of four groups, two policy replicas, one rollout replica, no checkpoints. */
const smallPlan: ControllerPlan = {
  ...plan,
  steps: 3,
  initReplicas: { policy: 2, rollout: 1 },
  checkpointReplicas: 0,
  groupsPerStep: 4,
  groupSize: 2,
  evalPrompts: 0,
  checkpointEverySteps: 0,
  limits: { ...plan.limits, leaseGroupsMax: 4, leasesPerRollout: 1, chunkGroups: 4 },
};

const settings: Readonly<Record<string, (value: number) => Partial<ControllerPlan>>> = {
  steps: (steps) => ({ steps }),
  staleness: (stalenessMax) => ({ stalenessMax }),
  policies: (policy) => ({ initReplicas: { ...smallPlan.initReplicas, policy } }),
  memory: (memoryEvery) => ({ checkpointReplicas: 1, memoryEvery }),
  checkpoints: (every) => ({ checkpointReplicas: 1, checkpointEverySteps: every }),
};

/** Runs a script. @returns The script with what was said under each of its commands. */
export function runScenario(script: string): string {
  const head = script.split("\n").filter((line) => line.startsWith("#"));
  const commands = script.split("\n").flatMap((line) => (line.startsWith("> ") ? [line.slice(2)] : []));
  const isPlan = commands[0]?.startsWith("plan ") ?? false;
  const patch = isPlan ? planPatch(commands[0] ?? "") : {};
  const said: string[] = [];
  const cluster = openCluster({ ...smallPlan, ...patch }, said);
  const blocks = commands.map((command, i) => {
    if (!(isPlan && i === 0)) perform(cluster, command);
    return [`> ${command}`, ...said.splice(0)].join("\n");
  });
  return `${[head.join("\n"), ...blocks].join("\n\n")}\n`;
}

function planPatch(command: string): Partial<ControllerPlan> {
  const patches = command
    .split(" ")
    .slice(1)
    .map((part) => {
      const [name = "", value] = part.split("=");
      const set = settings[name];
      if (!set) throw new Error(`"${name}" is no setting of a scenario; there are ${Object.keys(settings).join(", ")}`);
      return set(Number(value));
    });
  return Object.assign({}, ...patches) as Partial<ControllerPlan>;
}

function openCluster(job: ControllerPlan, said: string[]): Cluster {
  let phase = "";
  return new Cluster({
    seed: 1,
    plan: job,
    observers: [
      {
        input: ({ controller }, event) => {
          const line = reportLine(event);
          if (line) said.push(line);
          if (controller.context.phase !== phase) said.push(`= ${controller.context.phase}`);
          phase = controller.context.phase;
        },
        controlled: (_, effect) => {
          if (effect.type === "command") said.push(`${effect.to} ← ${effect.kind}${commandDetail(effect)}`);
          if (effect.type === "announce") said.push(`! ${effect.kind}${factDetail(effect)}`);
        },
      },
    ],
  });
}

function perform(cluster: Cluster, command: string): void {
  const [verb, first = "", second = ""] = command.split(" ");
  if (verb === "start") cluster.start(first as ReplicaRole, second);
  else if (verb === "stop") cluster.stop(first);
  else if (verb === "kill") cluster.kill(first, second !== "unseen");
  else if (verb === "freeze") cluster.freeze(first, Number(second));
  else if (verb === "failover") cluster.failover();
  else if (verb === "end") cluster.operate("job.stop", { reason: "asked" });
  else if (verb === "run") runUntil(cluster, command.replace(/^run( until)? /, ""));
  else throw new Error(`"${verb}" is no command of a scenario`);
}

/** Conditions: `step 2`, `running 2` (step 2 is being computed), `ranks 3`, `leased r0`, `gone p0`, `back p0`, `end`; or `<n> ms`. */
function runUntil(cluster: Cluster, condition: string): void {
  const [what = "", value = ""] = condition.split(" ");
  const endMs = value === "ms" ? cluster.nowMs + Number(what) : Number.POSITIVE_INFINITY;
  const conditions: Readonly<Record<string, () => boolean>> = {
    step: () => cluster.state.step.step >= Number(value),
    running: () => cluster.state.step.step >= Number(value) && cluster.state.step.state === "running",
    ranks: () => cluster.state.mesh.state === "ready" && cluster.state.mesh.members.length === Number(value),
    leased: () => Object.values(cluster.state.leases).some(({ holder }) => holder === value),
    back: () => cluster.state.members[value]?.held !== undefined && cluster.state.members[value]?.held !== null,
    gone: () => !cluster.state.members[value],
    end: () => cluster.stopped !== null,
  };
  const holds = value === "ms" ? () => cluster.nowMs >= endMs : conditions[what];
  if (!holds) throw new Error(`"${condition}" is no condition of a scenario`);
  if (!cluster.runUntil(holds, 60_000)) throw new Error(`"${condition}" does not come`);
}

const itemOf = (item: WorkItem): string =>
  item.purpose === "train" ? `${item.step}.${item.index}` : `eval ${item.chunk}`;

function reportLine(event: ControllerEvent): string | null {
  if (event.type === "controller.tick") return null;
  if (event.type === "controller.elected") return `controller elected, term ${event.term}`;
  if (event.type === "controller.restored") return `controller restored, step ${event.checkpoint.step}`;
  if (event.type === "controller.filled") return `controller filled, ${event.bytes} bytes`;
  if ("id" in event) return `${event.id} ${event.type}`;
  return `${event.from} → ${event.type}${reportDetail(event)}`;
}

function reportDetail(event: Extract<ControllerEvent, { from: string }>): string {
  switch (event.type) {
    case "weights.held":
      return ` ${event.body.lineage}.${event.body.version}`;
    case "mesh.built":
      return ` epoch ${event.body.epoch}`;
    case "groups.completed":
      return ` ${event.body.receipts.map(({ step, index }) => `${step}.${index}`).join(" ")}`;
    case "groups.returned":
      return ` ${event.body.items.map(itemOf).join(" ")}`;
    case "step.voted":
      return ` ${event.body.vote} step ${event.body.step}/${event.body.attempt}`;
    case "checkpoint.saved":
      return ` step ${event.body.step}`;
    default:
      return "";
  }
}

function commandDetail({ kind, body }: CommandEffect): string {
  switch (kind) {
    case "weights.initialize":
      return ` ${body.lineage}.${body.version} from ${body.source.kind}`;
    case "weights.pull":
      return ` ${body.lineage}.${body.version} of ${body.holders.map(({ id }) => id).join(", ")}`;
    case "mesh.build":
      return ` epoch ${body.epoch}: ${body.members.map(({ id }) => id).join(", ")}`;
    case "groups.lease":
      return ` ${body.leaseId} at ${body.lineage}.${body.version}: ${body.items.map(itemOf).join(" ")}`;
    case "step.run":
    case "step.apply":
    case "step.discard":
      return ` step ${body.step}/${body.attempt} epoch ${body.epoch}`;
    case "checkpoint.save":
      return ` step ${body.step}`;
    case "replica.refused":
    case "replica.fenced":
    case "replica.stop":
      return `: ${body.reason}`;
    default:
      return "";
  }
}

function factDetail({ kind, body }: AnnounceEffect): string {
  switch (kind) {
    case "step.committed":
      return ` step ${body.step} as ${body.lineage}.${body.version}, staleness ${body.staleness}`;
    case "step.retried":
      return ` step ${body.step}: ${body.reason}`;
    case "mesh.changed":
      return ` epoch ${body.epoch}: ${body.members.join(", ")}`;
    case "groups.released":
      return ` ${body.count} of ${body.holder}: ${body.reason}`;
    case "groups.resumed":
      return ` ${body.items.join(", ")} by ${body.holder}`;
    case "checkpoint.kept":
      return ` step ${body.step}`;
    case "alarm.raised":
      return ` ${body.alarm}: ${body.detail}`;
    case "job.ended":
      return ` ${body.outcome} at ${body.lineage}.${body.version}: ${JSON.stringify(body.ledger).replace(/["{}]/g, "").replaceAll(",", ", ")}`;
    case "job.started":
      return ` term ${body.term}`;
    default:
      return "id" in body ? ` ${body.id}` : "";
  }
}
