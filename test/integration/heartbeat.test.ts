import { silentLogger } from "@muster/base";
import { type AnyMessage, decodeMessage, type Message, subjectsOf } from "@muster/protocol";
import { type Heartbeat, type HeartbeatOptions, startHeartbeat } from "@muster/runtime";
import { startTestServer, type TestServer, waitFor } from "@muster/testkit";
import type { Transport } from "@muster/transport";
import { generateKeys } from "@muster/transport/internal";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

type Beat = Message<"heartbeat.beat">;

describe("heartbeats", () => {
  let server: TestServer;
  let controller: Transport;
  let beats: Beat[];
  let running: Heartbeat[];
  beforeEach(async () => {
    server = await startTestServer();
    controller = await server.connect("controller.c0.a1");
    beats = [];
    running = [];
    await controller.subscribe(subjectsOf(server.job).all.heartbeats, (_, data) => {
      const message: AnyMessage = decodeMessage(data);
      if (message.kind === "heartbeat.beat") beats.push(message);
    });
    await controller.flush();
  });
  afterEach(async () => {
    for (const heartbeat of running) await heartbeat.stop();
    await server.close();
  });

  const start = (options: Partial<HeartbeatOptions> = {}): Heartbeat => {
    const heartbeat = startHeartbeat({
      connection: { url: server.url, credentials: server.server.credentials.rollout, name: "rollout.r0.a1" },
      identity: { job: server.job, id: "r0", role: "rollout", incarnation: "a1" },
      intervalMs: 50,
      phases: ["starting", "ready"],
      logger: silentLogger,
      ...options,
    });
    running.push(heartbeat);
    return heartbeat;
  };
  const beat = (what: string, matches: (beat: Beat) => boolean): Promise<Beat> =>
    waitFor(() => beats.find(matches), { what, timeoutMs: 10_000, detail: () => beats.at(-1)?.body });

  test("say who is alive and what the main loop last set", async () => {
    const heartbeat = start();
    const first = await beat("a first beat", () => true);
    expect(first).toMatchObject({
      from: "r0",
      role: "rollout",
      incarnation: "a1",
      term: 0,
      body: { version: null, phase: "starting" },
    });
    heartbeat.setVersion(12);
    heartbeat.setPhase("ready");
    heartbeat.setTerm(3);
    heartbeat.setEpoch(4);
    heartbeat.progress(7);
    heartbeat.progress();
    const later = await beat("a beat with everything set", ({ body, epoch }) => body.progress === 8 && epoch === 4);
    expect(later).toMatchObject({ term: 3, body: { version: 12, phase: "ready", progress: 8 } });
    expect(later.body.rssBytes).toBeGreaterThan(1_000_000);
    expect(later.seq).toBeGreaterThan(first.seq);
  });

  test("go on while the main loop computes, and say how long it has been silent", async () => {
    start();
    await beat("a first beat", () => true);
    const until = performance.now() + 700;
    while (performance.now() < until);
    const late = await beat("a beat that shows the stall", ({ body }) => body.loopLagMs > 400);
    expect(late.body.loopLagMs).toBeLessThan(5_000);
    const during = beats.filter(({ body }) => body.loopLagMs > 0);
    expect(during.length).toBeGreaterThan(3);
    await beat("a beat after the stall", ({ seq, body }) => seq > late.seq && body.loopLagMs < 100);
  });

  test("go on by themselves when the broker was away", async () => {
    start();
    await beat("a first beat", () => true);
    await server.server.restart();
    const { seq } = beats.at(-1) as Beat;
    await beat("a beat after the restart", (later) => later.seq > seq + 1);
  });

  test("refuse a phase that was not declared", () => {
    expect(() => start().setPhase("dreaming")).toThrow(/phase "dreaming" is not one of .* starting, ready/);
  });

  test("tell their owner when the thread fails", async () => {
    const failures: unknown[] = [];
    start({
      identity: { job: "NOT AN ID", id: "r0", role: "rollout", incarnation: "a1" },
      onFailed: (error) => failures.push(error),
    });
    await waitFor(() => failures.length > 0, { what: "the failure of the thread", timeoutMs: 10_000 });
    expect(String(failures[0])).toMatch(/heartbeat thread ended with code 1: job "NOT AN ID" is not a valid id/);
  });

  test("end within half a second, also when they never reached a broker", async () => {
    const connected = start();
    await beat("a first beat", () => true);
    const lost = start({
      connection: { url: "nats://127.0.0.1:9", credentials: generateKeys().credentials.rollout, name: "rollout.r0.a1" },
    });
    const startedMs = performance.now();
    await Promise.all([connected.stop(), lost.stop()]);
    // Half a second, and as much again for a machine that does other things.
    expect(performance.now() - startedMs).toBeLessThan(1_000);
    await connected.stop();
  });
});
