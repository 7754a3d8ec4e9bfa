/**
 * What the router adds to a request, and how many it passes on beside nginx with least_conn in the same run: engines, clients and proxies are processes
 * of their own on this machine, and every engine answers at once.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { medianOf } from "@muster/base";
import { Member } from "./lib/member.mjs";
import { spreadOf } from "./lib/stats.mjs";

export const about = "a request through the router, against the engine itself and against nginx with least_conn";

const nginx = "/usr/sbin/nginx";
const rounds = 5;
const requests = { alone: 400, together: 3_000 };
const clients = 32;

export async function* run() {
  const script = new URL("router/member.mjs", import.meta.url);
  const engines = [new Member(script), new Member(script)];
  const client = new Member(script);
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-"));
  const proxies = [];
  try {
    /** @type {number[]} */
    const ports = await Promise.all(engines.map((engine) => engine.call("serve", {})));
    const router = await startRouter(ports);
    proxies.push(router.process);
    const direct = ports[0] ?? 0;
    const ask = (/** @type {number} */ port, /** @type {number} */ count, /** @type {number} */ width) =>
      /** @type {Promise<{ p50Ms: number, msPerRequest: number }>} */ (client.call("load", { port, count, width }));
    for (const port of [direct, router.port]) await ask(port, requests.together, clients);
    const added = [];
    const alone = [];
    for (let round = 0; round < rounds; round++) {
      const without = await ask(direct, requests.alone, 1);
      const through = await ask(router.port, requests.alone, 1);
      alone.push(without.p50Ms);
      added.push(through.p50Ms - without.p50Ms);
    }
    const base = medianOf(alone);
    yield {
      ...{ name: "added latency, p50", unit: "ms", against: "no aim", ours: medianOf(added), reference: base },
      ...{ ratio: medianOf(added) / base, spread: spreadOf(added), aim: 1 },
    };
    if (!existsSync(nginx)) {
      console.error("  nginx is missing, so throughput is not compared: apt-get install nginx-light");
      return;
    }
    const peer = await startNginx(folder, ports);
    proxies.push(peer.process);
    await ask(peer.port, requests.together, clients);
    /** @type {number[]} */
    const ours = [];
    /** @type {number[]} */
    const reference = [];
    for (let round = 0; round < rounds; round++) {
      ours.push((await ask(router.port, requests.together, clients)).msPerRequest);
      reference.push((await ask(peer.port, requests.together, clients)).msPerRequest);
    }
    const ratios = ours.map((ms, i) => ms / (reference[i] ?? Number.NaN));
    yield {
      ...{
        name: `time of a request, ${clients} clients`,
        unit: "ms",
        against: "nginx least_conn",
        ours: medianOf(ours),
      },
      ...{ reference: medianOf(reference), ratio: medianOf(ratios), spread: spreadOf(ratios), ratioAim: 2 },
    };
  } finally {
    for (const member of [...engines, client]) member.end();
    for (const proxy of proxies) {
      proxy.kill("SIGTERM");
      await once(proxy, "exit");
    }
    await rm(folder, { recursive: true, force: true });
  }
}

/** @param {readonly number[]} ports */
async function startRouter(ports) {
  const muster = fileURLToPath(new URL("../packages/cli/bin/muster.mjs", import.meta.url));
  const workers = ports.flatMap((port) => ["--worker", `http://127.0.0.1:${port}`]);
  const process_ = spawn(
    process.execPath,
    [muster, "router", "--port", "0", "--json", "--log-level", "warn", ...workers],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const [line] = await once(process_.stdout, "data");
  /** @type {{ url: string }} */
  const { url } = JSON.parse(String(line));
  for (;;) {
    const answer = await fetch(`${url}/workers`);
    const { workers: shown } = /** @type {{ workers: { is_healthy: boolean }[] }} */ (await answer.json());
    if (shown.every((worker) => worker.is_healthy)) return { process: process_, port: Number(new URL(url).port) };
  }
}

/** @param {string} folder @param {readonly number[]} ports */
async function startNginx(folder, ports) {
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const servers = ports.map((one) => `server 127.0.0.1:${one};`).join(" ");
  const config = join(folder, "nginx.conf");
  await writeFile(
    config,
    `daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path ${folder}; proxy_temp_path ${folder}; fastcgi_temp_path ${folder}; uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
  keepalive_requests 1000000;
  upstream engines { least_conn; ${servers} keepalive 64; keepalive_requests 1000000; }
  server { listen 127.0.0.1:${port}; location / { proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection ""; } } }
`,
  );
  const checked = spawnSync(nginx, ["-t", "-c", config, "-p", folder], { encoding: "utf8" });
  if (checked.status !== 0) throw new Error(`nginx: ${checked.stderr}`);
  const process_ = spawn(nginx, ["-c", config, "-p", folder], { stdio: ["ignore", "inherit", "inherit"] });
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/health`).catch(() => null);
    if (answer?.ok) return { process: process_, port };
  }
}
