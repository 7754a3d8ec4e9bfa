/** Who gets which keys: a file per role, and a command that puts some of them together for another host. */
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { brokerRoles, type ServerCredentials } from "@muster/transport";
import { generateKeys } from "@muster/transport/internal";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  credentialsOf,
  findConnection,
  readCredentials,
  writeConnection,
  writeOwnConnection,
} from "../src/composition/connection.ts";
import { buildOnce, muster } from "./support/muster.ts";

const url = "nats://127.0.0.1:43210";
const roles = [...brokerRoles, "system"];
const users = generateKeys().credentials;
let temp: TempDirectory;
let run: string;

beforeAll(async () => {
  buildOnce();
  temp = await makeTempDirectory();
  run = join(temp.path, "team");
  writeConnection(run, { job: "team", url, credentials: users });
}, 120_000);
afterAll(() => temp.remove());

const modeOf = (...path: string[]): number => statSync(join(...path)).mode & 0o777;
const where = (): string[] => ["--runs", temp.path, "--job", "team"];
const write = (name: string, text: string, mode: number): string => {
  const path = join(temp.path, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
};

describe("the folder of a job", () => {
  it("holds no key in the file that says where the broker is, and those of one role in each other file", () => {
    expect(JSON.parse(readFileSync(join(run, "connection.json"), "utf8"))).toEqual({ job: "team", url });
    for (const role of roles) {
      const text = readFileSync(join(run, "credentials", `${role}.json`), "utf8");
      const found = roles.filter((each) => text.includes(users[each as keyof ServerCredentials].seed));
      expect(found).toEqual([role]);
    }
  });

  it("lets nobody but its owner read them, and keeps that when a file of before was open", () => {
    chmodSync(join(run, "connection.json"), 0o644);
    writeConnection(run, { job: "team", url, credentials: users });
    expect(modeOf(run, "credentials")).toBe(0o700);
    expect(modeOf(run, "connection.json")).toBe(0o600);
    for (const name of readdirSync(join(run, "credentials"))) expect(modeOf(run, "credentials", name)).toBe(0o600);
  });

  it("gives a process the credentials that it asks for and no others", () => {
    const found = findConnection({ runs: temp.path, job: "team" }, ["rollout"]);
    expect(found.credentials).toEqual({ rollout: users.rollout });
    expect(() => credentialsOf(found, "controller")).toThrow(
      /no credentials for the role controller in .*team\/credentials; .*credentials controller --job team > FILE/,
    );
  });
});

describe("muster credentials", { timeout: 30_000 }, () => {
  it("writes a connection file of the roles that are named, with the address that is given", () => {
    const { code, stdout, stderr } = muster(["credentials", "node", "rollout", "--nats", "tls://far:4222", ...where()]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const { node, rollout } = users;
    expect(JSON.parse(stdout)).toEqual({ job: "team", url: "tls://far:4222", credentials: { node, rollout } });
  });

  it("writes a file that a process of another host finds its job by, and a broker of one's own takes all of them", () => {
    const far = write("far.json", muster(["credentials", "rollout", ...where()]).stdout, 0o600);
    expect(findConnection({ runs: temp.path, job: "team", connection: far }, ["rollout"])).toMatchObject({
      url,
      credentials: { rollout: users.rollout },
    });
    const all = write("users.json", muster(["credentials", "all", ...where()]).stdout, 0o600);
    expect(readCredentials(all)).toEqual(users);
  });

  it("writes a file that says which job it is of, so that a host without any run need not name it", () => {
    const far = write("there.json", muster(["credentials", "rollout", ...where()]).stdout, 0o600);
    const runs = join(temp.path, "none");
    expect(findConnection({ runs, connection: far }, [])).toMatchObject({ job: "team", directory: join(runs, "team") });
    expect(() => findConnection({ runs, connection: far, job: "other" }, [])).toThrow(
      `${far} of --connection is of the job "team", and --job says "other"; leave --job out`,
    );
    const gone = join(temp.path, "gone.json");
    expect(() => findConnection({ runs, connection: gone }, [])).toThrow(`${gone} can not be read: it is not there`);
  });

  it("writes those of one replica, which hold no key of its role and make no other", () => {
    const { stdout } = muster(["credentials", "rollout", "--replica", "far-0", ...where()]);
    const far = write("far-0.json", stdout, 0o600);
    const { rollout } = findConnection({ runs: temp.path, job: "team", connection: far }, ["rollout"]).credentials;
    expect(rollout).toMatchObject({ user: "rollout", account: users.rollout.account, replica: { id: "far-0" } });
    expect(stdout).not.toContain(users.rollout.seed);
  });

  it("gives what a node starts a file of its own, and of a role that the node has no key of nothing", () => {
    const found = findConnection({ runs: temp.path, job: "team" }, ["rollout"]);
    const path = writeOwnConnection(found, "rollout", "rollout-3");
    expect(path).toBe(join(run, "credentials", "rollout.rollout-3.json"));
    expect(modeOf(String(path))).toBe(0o600);
    const own = findConnection({ runs: temp.path, job: "team", connection: String(path) }, ["rollout"]);
    expect(own.credentials.rollout?.replica?.id).toBe("rollout-3");
    expect(readFileSync(String(path), "utf8")).not.toContain(users.rollout.seed);
    expect(writeOwnConnection(found, "policy", "policy-0")).toBeNull();
  });

  it.each([
    ["one replica of two roles", ["node", "rollout", "--replica", "far-0"], /--replica.* name that role alone/],
    ["an id that is none", ["rollout", "--replica", "Far 0"], /"Far 0" is not a valid id/],
    ["no role", [], "missing required argument 'role'"],
    ["a role that is none", ["trainer"], /role "trainer" can not be used; roles are controller, policy, .*, and all/],
  ])("refuses %s", (_, names, complaint) => {
    const { code, stdout, stderr } = muster(["credentials", ...names, ...where()]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(complaint);
  });
});

describe("a file with keys", () => {
  it.each([0o644, 0o604, 0o660, 0o602])("is refused when its mode is %o, with the command that mends it", (mode) => {
    const path = write("open.json", JSON.stringify({ job: "team", url, credentials: {} }), mode);
    const find = () => findConnection({ runs: temp.path, job: "team", connection: path }, ["rollout"]);
    expect(find).toThrow(`(mode 0${mode.toString(8)}): chmod 600 ${path}`);
  });

  it("may be read by a group, as where a cluster hands it to a container", () => {
    const path = write("group.json", JSON.stringify({ rollout: users.rollout }), 0o440);
    expect(readCredentials(path)).toEqual({ rollout: users.rollout });
  });
});
