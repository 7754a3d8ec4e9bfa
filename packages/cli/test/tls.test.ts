/** Servers that speak HTTPS, and certificates that can not be used: refused before anything listens. */
import { writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { makeTempDirectory, testCertificate } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { tlsOf } from "../src/composition/tls.ts";
import { addressOf, buildOnce, muster, type RunningMuster, startMuster } from "./support/muster.ts";

const folder = await makeTempDirectory();
const file = (name: string, text: string, mode = 0o600): string => {
  const path = join(folder.path, name);
  writeFileSync(path, text, { mode });
  return path;
};
const cert = file("cert.pem", testCertificate.cert, 0o644);
const key = file("key.pem", testCertificate.key);

const started: RunningMuster[] = [];
beforeAll(buildOnce, 120_000);
afterEach(async () => {
  for (const each of started.splice(0)) {
    each.kill("SIGKILL");
    await each.ended;
  }
});
afterAll(() => folder.remove());

describe("a certificate", () => {
  it("is read with its key, and is none where neither is given", () => {
    expect(tlsOf({})).toBeNull();
    expect(tlsOf({ tlsCert: cert, tlsKey: key })).toEqual(testCertificate);
  });

  it.each([
    ["without its key", { tlsCert: cert }, /--tls-cert: .*cert\.pem.* goes with --tls-key; give both/],
    ["that is missing", { tlsKey: key }, /--tls-key: .*key\.pem.* goes with --tls-cert; give both/],
    ["that is none", { tlsCert: key, tlsKey: key }, /--tls-cert: .*key\.pem.*are no certificate with its key, as PEM/],
    ["with a key that others can read", { tlsCert: cert, tlsKey: cert }, /cert\.pem holds keys.*mode 0644/],
    ["that is not there", { tlsCert: "/nowhere.pem", tlsKey: key }, /\/nowhere\.pem can not be read: ENOENT/],
  ])("%s is refused, with the option and the way out", (_, options, says) => {
    expect(() => tlsOf(options)).toThrow(says);
  });
});

it.each(["router", "gateway"])(
  "muster %s answers over HTTPS with the certificate that it was given",
  async (command) => {
    const server = startMuster([command, "--port", "0", "--json", "--tls-cert", cert, "--tls-key", key]);
    started.push(server);
    const url = await addressOf(server);
    expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    const path = command === "router" ? "/health" : "/openapi.json";
    const status = await new Promise((resolve, reject) => {
      request(`${url}${path}`, { ca: testCertificate.cert }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      })
        .on("error", reject)
        .end();
    });
    expect(status).toBe(200);
    await expect(fetch(`${url.replace("https", "http")}${path}`)).rejects.toThrow();
  },
);

it("a page for other hosts is served with a certificate, and refused without", () => {
  const args = ["dashboard", "--runs", folder.path, "--listen", "0.0.0.0:0"];
  expect(muster(args).stderr).toMatch(/reached from other hosts: give --tls-cert and --tls-key/);
  expect(muster([...args, "--tls-cert", cert, "--tls-key", key]).stderr).toMatch(/there is no job in/);
});
