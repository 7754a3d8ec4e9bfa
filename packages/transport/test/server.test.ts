import { subjectsOf } from "@muster/protocol";
import { expect, test } from "vitest";
import { brokerRoles, credentialsOfReplica } from "../src/index.ts";
import { permissionsOf } from "../src/internal.ts";
import { matcherOf } from "../src/memory/subject.ts";
import { isRecent } from "../src/nats/connect.ts";
import { parseNotice } from "../src/nats/disconnects.ts";
import { accountsOf } from "../src/server/accounts.ts";
import { renderConfig } from "../src/server/config.ts";
import { filesOf } from "../src/server/files.ts";
import { generateKeys } from "../src/server/keys.ts";
import { parsePorts } from "../src/server/server-process.ts";

const job = "demo";
const subjects = subjectsOf(job);
const publishersOf = (subject: string): readonly string[] =>
  brokerRoles.filter((role) => permissionsOf(job, role, "*").publish.some((pattern) => matcherOf(pattern)(subject)));

test("each place of a job has exactly the publishers it should have", () => {
  expect(publishersOf(subjects.journal)).toEqual(["controller"]);
  expect(publishersOf(subjects.command("r0", "work.assign"))).toEqual(["controller"]);
  expect(publishersOf(subjects.event("step.done"))).toEqual(["controller"]);
  expect(publishersOf("$KV.muster-demo.lease")).toEqual(["controller"]);
  expect(publishersOf(subjects.groups("r0"))).toEqual(["rollout"]);
  for (const role of ["policy", "rollout", "checkpoint", "node"] as const) {
    expect(publishersOf(subjects.heartbeat(role, "x"))).toEqual([role]);
    expect(publishersOf(subjects.report(role, "x", "replica.left"))).toEqual([role]);
  }
  expect(publishersOf(subjects.report("policy", "x", "mesh.built"))).toEqual(["policy"]);
  expect(publishersOf(subjects.report("rollout", "x", "mesh.built"))).toEqual([]);
  expect(publishersOf(subjects.report("operator", "x", "job.stop"))).toEqual(["operator"]);
  expect(publishersOf(subjects.report("operator", "x", "barrier.arrived"))).toEqual(["operator", "script"]);
});

test("no role can delete, update or restore a stream, and only the controller can purge one", () => {
  for (const verb of ["DELETE", "UPDATE", "RESTORE", "SNAPSHOT", "MSG.DELETE"]) {
    expect(publishersOf(`$JS.API.STREAM.${verb}.muster-demo-journal`), verb).toEqual([]);
  }
  for (const stream of ["groups", "journal"])
    expect(publishersOf(`$JS.API.STREAM.PURGE.muster-demo-${stream}`)).toEqual(["controller"]);
  expect(publishersOf("$JS.API.STREAM.PURGE.KV_muster-demo")).toEqual([]);
  expect(publishersOf("$JS.API.STREAM.CREATE.muster-other-journal")).toEqual([]);
});

test("no role hears another's answers, commands or journal", () => {
  for (const role of brokerRoles) {
    const { subscribe } = permissionsOf(job, role, "x");
    const hears = (subject: string): boolean => subscribe.some((pattern) => matcherOf(pattern)(subject));
    const others = brokerRoles.filter((other) => other !== role);
    expect(others.some((other) => hears(`_INBOX_${other}.x.y`))).toBe(false);
    expect(hears(subjects.journal) || hears(subjects.command("r0", "work.assign"))).toBe(false);
  }
});

test("generated keys never repeat, and the configuration holds none of their seeds", () => {
  const [first, second] = [generateKeys(), generateKeys()];
  const seeds = [first, second].flatMap(({ operator, credentials }) => [
    operator,
    ...Object.values(credentials).map(({ seed }) => seed),
  ]);
  expect(new Set(seeds).size).toBe(2 * (brokerRoles.length + 2));
  const config = renderConfig({ job, port: 0, files: filesOf("/x"), keys: first });
  const told = [config, ...accountsOf(job, first).map(({ token }) => textIn(token))].join("\n");
  expect(seeds.filter((seed) => told.includes(seed))).toEqual([]);
  expect(told).toContain("reports.rollout.{{name()}}.replica.left");
});

const textIn = (token: string): string => Buffer.from(token.split(".")[1] ?? "", "base64url").toString();

test("the credentials of one replica hold a key of its own and not that of its role", () => {
  const role = generateKeys().credentials.rollout;
  const own = credentialsOfReplica(role, "r0");
  expect(own).toMatchObject({ user: "rollout", account: role.account, replica: { id: "r0" } });
  expect(own.seed).toMatch(/^SU/);
  expect(JSON.stringify(own)).not.toContain(role.seed);
  expect(credentialsOfReplica(own, "r1")).toBe(own);
});

test("the configuration listens on loopback only, gives everybody a user and syncs each write", () => {
  const config = renderConfig({
    job,
    port: 0,
    files: filesOf('/tmp/a "quoted" place'),
    keys: generateKeys(),
  });
  expect(config).toContain('listen: "127.0.0.1:-1"');
  expect(config).toContain("sync_interval: always");
  expect(config).toContain('store_dir: "/tmp/a \\"quoted\\" place/store"');
  expect(config).not.toMatch(/no_auth_user|websocket|leafnodes|http/);
  expect(renderConfig({ job, port: 4222, monitoring: true, files: filesOf("/x"), keys: generateKeys() })).toMatch(
    /listen: "127.0.0.1:4222"\nhttp: "127.0.0.1:-1"/,
  );
});

test.each([
  ["2.11.0", true],
  ["2.15.1", true],
  ["3.0.0-beta", true],
  ["2.10.27", false],
  ["1.99.99", false],
  ["unknown", false],
])("server version %s is recent enough: %s", (version, isEnough) => {
  expect(isRecent(version)).toBe(isEnough);
});

test("a notice without a name or a user is nobody's, and one without a reason has an empty one", () => {
  const { replica } = credentialsOfReplica(generateKeys().credentials.rollout, "r0");
  const client = { name: "rollout.r0.a1", acc: "A", jwt: replica?.token };
  const notice = { name: "rollout.r0.a1", account: "A", user: "r0" };
  const read = (event: object) => parseNotice(JSON.stringify(event));
  expect(read({ client, reason: "Client Closed" })).toEqual({ ...notice, reason: "Client Closed" });
  expect(read({ client })).toEqual({ ...notice, reason: "" });
  expect(read({ client: { ...client, jwt: undefined } })).toBeNull();
  expect(read({ client: { ...client, acc: undefined } })).toBeNull();
  expect(parseNotice('{"client":{"name":"x"}}')).toBeNull();
  expect(parseNotice('{"client":{}}')).toBeNull();
  expect(() => parseNotice("{")).toThrow(SyntaxError);
});

test("a half-written address file is not read", () => {
  expect(parsePorts("")).toBeNull();
  expect(parsePorts('{"nats":["nats://127.0.')).toBeNull();
  expect(parsePorts('{"nats":["nats://127.0.0.1:4222"]}')).toEqual({
    url: "nats://127.0.0.1:4222",
    monitoringUrl: null,
  });
});
