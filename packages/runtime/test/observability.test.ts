import { mkdtemp, readFile, rm } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hasCode } from "@muster/base";
import { afterEach, describe, expect, test } from "vitest";
import { createLogger, type LoggerOptions, runtimeMetrics } from "../src/index.ts";
import { createMetrics, type MetricsServer, startMetricsServer } from "../src/observability/index.ts";
import { openLogFile } from "../src/observability/log-file.ts";

describe("the logger", () => {
  const logTo = (options: Partial<LoggerOptions> = {}) => {
    const text: string[] = [];
    const logger = createLogger({ level: "info", destination: { write: (line) => void text.push(line) }, ...options });
    return { logger, text, lines: () => text.map((line) => JSON.parse(line)) };
  };

  test("writes constant text with fields, and the fields of its base and its children", () => {
    const { logger, lines } = logTo({ base: { job: "dates", role: "policy" } });
    logger.child({ component: "host" }).info({ from: "ready", to: "stopped" }, "state changed");
    expect(lines()).toEqual([
      {
        level: "info",
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
        job: "dates",
        role: "policy",
        component: "host",
        from: "ready",
        to: "stopped",
        msg: "state changed",
      },
    ]);
  });

  test("drops lines below its level", () => {
    const { logger, lines } = logTo({ level: "warn" });
    logger.info({}, "no");
    logger.warn({}, "yes");
    expect(lines().map(({ msg }) => msg)).toEqual(["yes"]);
  });

  test("shows errors with their causes", () => {
    const { logger, lines } = logTo();
    logger.error({ error: new Error("outer", { cause: new Error("inner") }) }, "failed");
    expect(lines()[0].error).toMatchObject({ message: "outer", cause: { message: "inner" } });
  });

  test("bounds each line, whatever was thrown, and still says where", () => {
    const { logger, text, lines } = logTo();
    const huge = new Error("x".repeat(2_000_000), { cause: new Error("y".repeat(2_000_000)) });
    huge.cause = Object.assign(huge.cause as Error, { cause: huge, body: "z".repeat(2_000_000) });
    logger.warn({ error: huge, reason: "w".repeat(2_000_000), err: huge }, "trajectory failed");
    expect(Buffer.byteLength(text.join(""))).toBeLessThan(200_000);
    expect(lines()[0].error.stack).toMatch(/x…\n\s+at .*observability/);
    expect(lines()[0].error.cause.cause.cause.cause).not.toHaveProperty("cause");
  });

  test("keeps a file within its bound: the newest lines, and those before in a second file", async () => {
    const directory = await mkdtemp(join(tmpdir(), "muster-log-"));
    const path = join(directory, "a.log");
    for (let life = 0; life < 3; life++) {
      const file = openLogFile(path, { bytesMax: 1_000 });
      for (let i = 0; i < 20; i++) file.write(`${"l".repeat(90)} ${life} ${i}\n`);
    }
    const [newest, before] = [await readFile(path, "utf8"), await readFile(`${path}.1`, "utf8")];
    expect(newest.length).toBeLessThanOrEqual(1_000);
    expect(before.length).toBeLessThanOrEqual(1_000);
    expect(newest).toMatch(/ 2 19\n$/);
    await rm(directory, { recursive: true });
  });

  test("never shows credentials, keys, prompts or tokens, at the top or one level down", () => {
    const { logger, text } = logTo();
    const secret = "hunter2";
    logger.info({ password: secret, credentials: { user: secret }, dataKey: secret, prompt: secret }, "top");
    logger.info(
      { body: { tokens: [secret], dataKey: secret }, connection: { password: secret, url: "nats://x" } },
      "below",
    );
    expect(text.join("")).not.toContain(secret);
    expect(text.join("")).toContain("nats://x");
    logger.info({ tokens: 123 }, "how many is no secret");
    expect(text.at(-1)).toContain('"tokens":123');
  });

  test("writes lines for people when asked", () => {
    const { logger, text } = logTo({ pretty: true });
    logger.warn({ epoch: 3 }, "mesh is late");
    expect(text.join("")).toMatch(/WARN.*mesh is late.*epoch.*3/);
    expect(text.join("").endsWith("\n")).toBe(true);
  });
});

describe("the metrics", () => {
  test("are rendered with help, labels and values", async () => {
    const metrics = createMetrics();
    metrics.counter({ name: "muster_test_total", help: "Tests.", labels: ["kind"] }).add(2, { kind: "a" });
    metrics.gauge({ name: "muster_test_depth_events", help: "Depth." }).set(7);
    metrics.histogram({ name: "muster_test_seconds", help: "Time.", buckets: [0.1, 1] }).observe(0.5);
    const text = await metrics.render();
    expect(text).toContain('muster_test_total{kind="a"} 2');
    expect(text).toContain("# HELP muster_test_depth_events Depth.");
    expect(text).toContain("muster_test_depth_events 7");
    expect(text).toMatch(/muster_test_seconds_bucket\{le="1"\} 1/);
  });

  test("are the same metric when asked for twice, and refuse another kind of the same name", async () => {
    const metrics = createMetrics();
    const options = { name: "muster_test_total", help: "Tests." };
    metrics.counter(options).add(1);
    metrics.counter(options).add(1);
    expect(await metrics.render()).toContain("muster_test_total 2");
    expect(() => metrics.gauge(options)).toThrow(/exists as a Counter and was asked for as a Gauge/);
  });

  test("of two registries do not meet", async () => {
    const [a, b] = [createMetrics(), createMetrics()];
    a.counter({ name: "muster_test_total", help: "Tests." }).add(5);
    expect(await b.render()).not.toContain("muster_test_total");
  });

  test("say how the process is when asked", async () => {
    const text = await createMetrics({ process: true }).render();
    expect(text).toContain("nodejs_eventloop_lag_seconds");
    expect(text).toContain("process_resident_memory_bytes");
  });

  test("of this package have names of the agreed form", () => {
    for (const { name, help } of Object.values(runtimeMetrics)) {
      expect(name).toMatch(/^muster_(mailbox|host|outbox)_[a-z_]+_(total|seconds|events|messages)$/);
      expect(help).toMatch(/^[A-Z].*\.$/);
    }
  });
});

describe("the metrics server", () => {
  const open: MetricsServer[] = [];
  afterEach(async () => {
    for (const server of open.splice(0)) await server.close();
  });
  const serve = async (healthy?: () => boolean) => {
    const metrics = createMetrics();
    metrics.counter({ name: "muster_test_total", help: "Tests." }).add(3);
    const server = await startMetricsServer({ port: 0, metrics, ...(healthy ? { healthy } : {}) });
    open.push(server);
    return {
      server,
      metrics,
      get: (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${server.port}${path}`, init),
    };
  };

  test("serves the metrics and nothing else", async () => {
    const { get } = await serve();
    const found = await get("/metrics?x=1");
    expect([found.status, found.headers.get("content-type")]).toEqual([
      200,
      expect.stringContaining("text/plain; version=0.0.4"),
    ]);
    expect(await found.text()).toContain("muster_test_total 3");
    expect((await get("/")).status).toBe(404);
    expect((await get("/metrics/../etc/passwd")).status).toBe(404);
    expect((await get("/metrics", { method: "POST", body: "x" })).status).toBe(405);
    expect((await get("/healthz", { method: "DELETE" })).headers.get("allow")).toBe("GET");
  });

  test.each([
    ["127.0.0.1:9464", 200],
    ["[::1]:9464", 200],
    ["LocalHost", 200],
    ["rebound.example:9464", 421],
    ["127.0.0.1.rebound.example", 421],
  ])("answers a request for the host %j with %i", async (host, status) => {
    const { server } = await serve();
    const answered = await new Promise<number | undefined>((resolve, reject) => {
      const asked = request({ port: server.port, path: "/metrics", headers: { host } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asked.once("error", reject).end();
    });
    expect(answered).toBe(status);
  });

  test("tells probes how the process is", async () => {
    let healthy = true;
    const { get } = await serve(() => healthy);
    expect((await get("/healthz")).status).toBe(200);
    healthy = false;
    expect((await get("/healthz")).status).toBe(503);
  });

  test("says clearly that its port is taken", async () => {
    const { server, metrics } = await serve();
    const error = await startMetricsServer({ port: server.port, metrics }).catch((reason: unknown) => reason);
    expect(hasCode(error, "MUSTER_ERR_METRICS_PORT")).toBe(true);
    expect(String(error)).toContain(`port ${server.port} on 127.0.0.1 is in use`);
  });

  test("closes although a client holds its connection open", async () => {
    const { server } = await serve();
    const client = connect(server.port, "127.0.0.1");
    await new Promise((resolve) => client.once("connect", resolve));
    const ended = new Promise((resolve) => client.once("close", resolve));
    client.on("error", () => {});
    await server.close();
    await ended;
  });
});
