import { EventEmitter } from "node:events";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type ExitCode,
  exitCodes,
  installLifecycle,
  type LifecycleOptions,
  type ProcessDoor,
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

class Door extends EventEmitter {
  readonly exits: number[] = [];
  readonly stdin = new Stdin();
  exit(code: number): void {
    this.exits.push(code);
  }
}

describe("the lifecycle of a process", () => {
  let door: Door;
  let clock: ReturnType<typeof manualClock>;
  let recorded: ReturnType<typeof recordingLogger>;
  let reasons: StopReason[];
  let endWork: (code?: ExitCode) => void;
  let uninstall: () => void;
  beforeEach(() => {
    door = new Door();
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
      door: door as ProcessDoor,
      ...options,
    });
  };

  test.each(["SIGTERM", "SIGINT"] as const)("ends gracefully on the first %s", async (signal) => {
    install();
    door.emit(signal);
    expect([reasons, door.exits]).toEqual([[signal], []]);
    endWork();
    await turns();
    expect(door.exits).toEqual([exitCodes.ok]);
    expect(clock.untilNextMs()).toBeNull();
  });

  test("exits with the code that the work ends with", async () => {
    install();
    door.emit("SIGTERM");
    endWork(exitCodes.failed);
    await turns();
    expect(door.exits).toEqual([1]);
  });

  test.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
  ] as const)("ends at once on a second signal, %s with %d", (signal, code) => {
    install();
    door.emit("SIGTERM");
    door.emit(signal);
    expect([reasons, door.exits]).toEqual([["SIGTERM"], [code]]);
  });

  test("ends anyway when the work does not end in time", () => {
    install();
    door.emit("SIGTERM");
    clock.advance(999);
    expect(door.exits).toEqual([]);
    clock.advance(1);
    expect(door.exits).toEqual([143]);
  });

  test("exits with 70 when the end itself fails", async () => {
    install({ onStop: () => Promise.reject(new Error("cannot let go")) });
    door.emit("SIGTERM");
    await turns();
    expect(door.exits).toEqual([70]);
    expect(recorded.lines.at(-1)?.message).toBe("process could not stop cleanly");
  });

  test.each(["uncaughtException", "unhandledRejection"])("says why and exits with 70 on %s", (event) => {
    const said: string[] = [];
    install({ say: (reason) => said.push(reason) });
    const error = new Error("nobody caught this", { cause: new Error("root") });
    door.emit(event, error);
    expect(door.exits).toEqual([70]);
    expect(said).toEqual(["nobody caught this"]);
    expect(recorded.lines).toMatchObject([{ level: "error", fields: { error, what: event } }]);
  });

  test("leaves SIGINT to the supervisor when there is one", () => {
    install({ supervised: true });
    door.emit("SIGINT");
    door.emit("SIGINT");
    expect([reasons, door.exits]).toEqual([[], []]);
    door.emit("SIGTERM");
    expect(reasons).toEqual(["SIGTERM"]);
  });

  test("stops once when the supervisor is gone", async () => {
    install({ supervised: true });
    expect(door.stdin.resumed).toBe(true);
    door.stdin.emit("end");
    door.stdin.emit("close");
    expect([reasons, door.exits]).toEqual([["parent-gone"], []]);
    endWork();
    await turns();
    expect(door.exits).toEqual([0]);
  });

  test("does not take the end of standard input for a second signal", () => {
    install({ supervised: true });
    door.emit("SIGTERM");
    door.stdin.emit("end");
    expect([reasons, door.exits]).toEqual([["SIGTERM"], []]);
  });

  test("has one second left when its supervisor goes while it is leaving, however long its grace is", () => {
    install({ supervised: true, graceMs: 30_000 });
    door.emit("SIGTERM");
    clock.advance(500);
    door.stdin.emit("end");
    clock.advance(600);
    door.stdin.emit("close");
    clock.advance(399);
    expect(door.exits).toEqual([]);
    clock.advance(1);
    expect(door.exits).toEqual([143]);
  });

  test("does not touch standard input when nobody supervises", () => {
    install();
    door.stdin.emit("end");
    expect([door.stdin.resumed, reasons]).toEqual([false, []]);
  });

  test("takes its handlers away", () => {
    install({ supervised: true });
    uninstall();
    expect([...door.eventNames(), ...door.stdin.eventNames()]).toEqual([]);
  });
});
