/**
 * What one role's credentials can make a real broker carry under the names of others. Every attack is a message that is whole in itself; the
 * controller refuses it, changes nothing, and tells the operator.
 */
import { type Controller, startController } from "@muster/actors/controller";
import { hasCode } from "@muster/base";
import {
  type Body,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  type Kind,
  type Message,
  type Role,
  subjectsOf,
} from "@muster/protocol";
import { startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { config, environmentOf } from "./support/controller.ts";

const subjects = subjectsOf("test");

interface Speaker {
  readonly id: string;
  readonly role: Role;
  readonly incarnation: string;
}

let server: TestServer;
let controller: Controller;
/** What was refused and why, as watchers hear it. */
const answers: Body<"message.refused">[] = [];

/** Says one thing with the credentials of a role, in the envelope of somebody. @returns Its id; `null` when the broker let it not through. */
async function say<K extends Kind>(credentials: Role, as: Speaker, kind: K, body: Body<K>): Promise<string | null> {
  const attacker = await server.connect(`${credentials}.${as.id}.a1`);
  const seq = ++said;
  const stamped = createEnveloper({ job: "test", ...as, wallMs: Date.now }).stamp(kind, body);
  const message = { ...stamped, seq, id: `said-${seq}` } as Message;
  try {
    const subject = subjects.report(credentials, as.id, kind);
    await attacker.publish(subject, encodeMessage(message), { msgId: message.id });
    return message.id;
  } catch (error) {
    if (hasCode(error, "MUSTER_ERR_BROKER_PERMISSION")) return null;
    throw error;
  } finally {
    await attacker.close();
  }
}
let said = 0;

const members = (): readonly string[] => Object.keys(controller.snapshot().context.state.members).sort();
const policy: Speaker = { id: "policy-0", role: "policy", incarnation: "p0" };
const rollout: Speaker = { id: "rollout-0", role: "rollout", incarnation: "r0" };
const checkpoint: Speaker = { id: "checkpoint-0", role: "checkpoint", incarnation: "k0" };

beforeAll(async () => {
  server = await startTestServer();
  controller = await startController({
    config,
    dataKey: new Uint8Array(32),
    environment: environmentOf(server, () => "c1"),
  });
  const watcher = await server.connect("watcher.w0.a1");
  await watcher.tail({
    stream: "events",
    fromSeq: 1,
    handle: ({ data }) => {
      const message = decodeMessage(data);
      if (message.kind === "message.refused") answers.push(message.body);
    },
  });
  for (const who of [policy, rollout, checkpoint]) {
    const body = { role: who.role as "policy", host: "h", pid: 7, engineBuild: "b" };
    await say(who.role, who, "replica.register", body);
  }
  await waitFor(() => members().length === 3, { what: "the members", detail: members });
});
afterAll(async () => {
  controller.abort("the test is over");
  await controller.ended;
  await server.close();
});

const held = {
  ...{ lineage: 0, version: 0, sections: [{ name: "weights" as const, bytes: 1, digest: "d" }] },
  addresses: [],
  bytes: 0,
  durationMs: 0,
};
const saved = {
  step: 50_000,
  lineage: 0,
  version: 50_000,
  path: "/tmp/elsewhere",
  manifestDigest: "d",
  bytes: 1,
  durationMs: 1,
};
const vote = { step: 1, attempt: 1, epoch: 1, vote: "commit" as const, finite: true, sections: [] };
const asRollout = { role: "rollout" as const, host: "h", pid: 8, engineBuild: "b" };
const asPolicy = { ...asRollout, role: "policy" as const };
const stranger: Speaker = { id: "rollout-9", role: "rollout", incarnation: "y" };
const exit = { id: "policy-0", host: "h", pid: 7, code: 1, signal: null };
const heldBack = { leaseId: "1-1", reason: "x" };

/** What an attack would change. */
const tables = () => {
  const { members, mesh, step, checkpoints, ending } = controller.snapshot().context.state;
  const roll = Object.values(members).map(({ id, role, incarnation, health, held: has }) => ({
    id,
    role,
    incarnation,
    health,
    has,
  }));
  return { roll, mesh: mesh.state, votes: step.votes, saved: checkpoints.saved, ending };
};

const rolloutAs = (who: Speaker): Speaker => ({ ...who, role: "rollout" });

describe("with the credentials of a role nobody says what another role says", () => {
  test.each<[string, Role, Speaker, Kind, object, string]>([
    ["a rollout forges a checkpoint", "rollout", rollout, "checkpoint.saved", saved, "wrong_role"],
    ["a rollout votes", "rollout", rollout, "step.voted", vote, "wrong_role"],
    [
      "a rollout breaks the mesh",
      "rollout",
      rollout,
      "mesh.failed",
      { epoch: 0, cause: "", missing: [] },
      "wrong_role",
    ],
    ["a rollout joins the mesh", "rollout", rollout, "mesh.built", { epoch: 0 }, "wrong_role"],
    ["a rollout stops the job", "rollout", rollout, "job.stop", { reason: "x" }, "wrong_role"],
    ["a rollout ends a process", "rollout", rollout, "process.exited", exit, "wrong_role"],
    ["a rollout speaks as a policy", "rollout", policy, "mesh.built", { epoch: 0 }, "spoofed"],
    ["a rollout registers as a policy", "rollout", stranger, "replica.register", asPolicy, "spoofed"],
    ["a checkpoint actor hands work in", "checkpoint", checkpoint, "groups.held", heldBack, "wrong_role"],
    ["a policy replica speaks for a node", "policy", policy, "node.signs", { signs: [] }, "wrong_role"],
  ])("%s: refused, and answered in public", async (_, credentials, as, kind, body, reason) => {
    const before = tables();
    const id = await say(credentials, as, kind, body as never);
    const answered = (): unknown => id === null || answers.some((one) => one.id === id && one.code === reason);
    await waitFor(answered, { what: `the answer ${reason}`, detail: () => answers.at(-1) });
    expect(tables()).toEqual(before);
  });

  test.each<[string, Role, Speaker, Kind, object]>([
    ["a rollout leaves as a policy", "rollout", rolloutAs(policy), "replica.left", { reason: "x" }],
    ["a rollout drains a policy", "rollout", rolloutAs(policy), "replica.draining", { reason: "x" }],
    [
      "a rollout takes a policy's place",
      "rollout",
      { ...rolloutAs(policy), incarnation: "z" },
      "replica.register",
      asRollout,
    ],
    ["a policy replica leaves as a rollout", "policy", { ...rollout, role: "policy" }, "replica.left", { reason: "x" }],
    [
      "a checkpoint actor holds weights as a policy",
      "checkpoint",
      { ...policy, role: "checkpoint" },
      "weights.held",
      held,
    ],
  ])("%s: counted, and nothing changes", async (_, credentials, as, kind, body) => {
    const before = tables();
    const count = (): number => controller.snapshot().context.state.dropped.forged ?? 0;
    const earlier = count();
    const id = await say(credentials, as, kind, body as never);
    await waitFor(() => id === null || count() > earlier, { what: "the count of forgeries", detail: count });
    expect(tables()).toEqual(before);
  });
});
