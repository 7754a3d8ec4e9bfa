import { EventEmitter } from "node:events";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type ExitCode,
  exitCodes,
  installLifecycle,
  type LifecycleOptions,
  type ProcessPort,
  type StopReason,
} from "../src/index.ts";
import { manualClock } from "../src/internal.ts";
import { recordingLogger, turns } from "./helpers.ts";

class Stdin extends EventEmitter {
  resumed = false;
  resume(): void {
    this.resumed = true;
  }
}

class FakeProcess extends EventEmitter {
  readonly exits: number[] = [];
  readonly stdin = new Stdin();
  exit(code: number): void {
    this.exits.push(code);
  }
}

describe("the lifecycle of a process", () => {
  let port: FakeProcess;
  let clock: ReturnType<typeof manualClock>;
  let recorded: ReturnType<typeof recordingLogger>;
  let reasons: StopReason[];
  let endWork: (code?: ExitCode) => void;
  let uninstall: () => void;
  beforeEach(() => {
    port = new FakeProcess();
    clock = manualClock();
    recorded = recordingLogger();
    reasons = [];
    uninstall = () => {};
  });
  afterEach(() => uninstall());
  const install = (options: Partial<LifecycleOptions> = {}): void => {
    uninstall = installLifecycle({
      onStop: (reason) => {
        reasons.push(reason);
        return new Promise((resolve) => {
          endWork = resolve;
        });
      },
      graceMs: 1_000,
      logger: recorded.logger,
      supervised: false,
      clock,
      port: port as ProcessPort,
      ...options,
    });
  };

  test.each(["SIGTERM", "SIGINT"] as const)("ends gracefully on the first %s", async (signal) => {
    install();
    port.emit(signal);
    expect([reasons, port.exits]).toEqual([[signal], []]);
    endWork();
    await turns();
    expect(port.exits).toEqual([exitCodes.ok]);
    expect(clock.untilNextMs()).toBeNull();
  });

  test("exits with the code that the work ends with", async () => {
    install();
    port.emit("SIGTERM");
    endWork(exitCodes.failed);
    await turns();
    expect(port.exits).toEqual([1]);
  });

  test.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
  ] as const)("ends at once on a second signal, %s with %d", (signal, code) => {
    install();
    port.emit("SIGTERM");
    port.emit(signal);
    expect([reasons, port.exits]).toEqual([["SIGTERM"], [code]]);
  });

  test("ends anyway when the work does not end in time", () => {
    install();
    port.emit("SIGTERM");
    clock.advance(999);
    expect(port.exits).toEqual([]);
    clock.advance(1);
    expect(port.exits).toEqual([143]);
  });

  test("exits with 70 when the end itself fails", async () => {
    install({ onStop: () => Promise.reject(new Error("cannot let go")) });
    port.emit("SIGTERM");
    await turns();
    expect(port.exits).toEqual([70]);
    expect(recorded.lines.at(-1)?.message).toBe("process could not stop cleanly");
  });

  test.each(["uncaughtException", "unhandledRejection"])("says why and exits with 70 on %s", (event) => {
    const said: string[] = [];
    install({ say: (reason) => said.push(reason) });
    const error = new Error("nobody caught this", { cause: new Error("root") });
    port.emit(event, error);
    expect(port.exits).toEqual([70]);
    expect(said).toEqual(["nobody caught this"]);
    expect(recorded.lines).toMatchObject([{ level: "error", fields: { error, what: event } }]);
  });

  test("leaves SIGINT to the supervisor when there is one", () => {
    install({ supervised: true });
    port.emit("SIGINT");
    port.emit("SIGINT");
    expect([reasons, port.exits]).toEqual([[], []]);
    port.emit("SIGTERM");
    expect(reasons).toEqual(["SIGTERM"]);
  });

  test("ends gracefully when its terminal ends, however often that is said", async () => {
    install({ onTerminal: true });
    port.emit("SIGHUP");
    port.emit("SIGHUP");
    expect([reasons, port.exits]).toEqual([["SIGHUP"], []]);
    endWork();
    await turns();
    expect(port.exits).toEqual([exitCodes.ok]);
  });

  test.each([
    ["a child of a supervisor, who is told too", { supervised: true, onTerminal: true }],
    ["who has no terminal", { onTerminal: false }],
  ])("goes on at the end of a terminal: %s", (_, options) => {
    install(options);
    port.emit("SIGHUP");
    expect([port.listenerCount("SIGHUP"), reasons, port.exits]).toEqual([1, [], []]);
  });

  test("stops once when the supervisor is gone", async () => {
    install({ supervised: true });
    expect(port.stdin.resumed).toBe(true);
    port.stdin.emit("end");
    port.stdin.emit("close");
    expect([reasons, port.exits]).toEqual([["parent-gone"], []]);
    endWork();
    await turns();
    expect(port.exits).toEqual([0]);
  });

  test("does not take the end of standard input for a second signal", () => {
    install({ supervised: true });
    port.emit("SIGTERM");
    port.stdin.emit("end");
    expect([reasons, port.exits]).toEqual([["SIGTERM"], []]);
  });

  test("has one second left when its supervisor goes while it is leaving, however long its grace is", () => {
    install({ supervised: true, graceMs: 30_000 });
    port.emit("SIGTERM");
    clock.advance(500);
    port.stdin.emit("end");
    clock.advance(600);
    port.stdin.emit("close");
    clock.advance(399);
    expect(port.exits).toEqual([]);
    clock.advance(1);
    expect(port.exits).toEqual([143]);
  });

  test("does not touch standard input when nobody supervises", () => {
    install();
    port.stdin.emit("end");
    expect([port.stdin.resumed, reasons]).toEqual([false, []]);
  });

  test("takes its handlers away", () => {
    install({ supervised: true });
    uninstall();
    expect([...port.eventNames(), ...port.stdin.eventNames()]).toEqual([]);
  });
});
