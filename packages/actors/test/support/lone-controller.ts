/** A controller whose clock the test moves, on a broker in memory whose calls the test may override, with members that are nothing but their voices. */

import {
  type AnyMessage,
  type Body,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  type Identity,
  subjectsOf,
} from "@muster/protocol";
import { type ManualClock, manualClock } from "@muster/runtime/internal";
import type { Transport } from "@muster/transport";
import { createMemoryBroker, type MemoryBroker } from "@muster/transport/internal";
import {
  type Controller,
  type ControllerEnd,
  type ControllerOptions,
  startController,
} from "../../src/controller/index.ts";
import type { Environment } from "../../src/index.ts";
import type { ControllerSnapshot } from "../../src/internal.ts";
import { processesOn } from "./environment.ts";
import { smallConfig } from "./small-config.ts";

/** Lets everything come as far as it can while no time passes. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
}

/** A transport with some of its methods overridden. */
function changed(transport: Transport, overrides: Partial<Transport>): Transport {
  return new Proxy(transport, {
    get(target, name) {
      const value = Reflect.get(name in overrides ? overrides : target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** What a test gives. */
export interface LoneOptions {
  readonly set?: readonly string[];
  /** The one that acted before, on whose broker it goes on; default a new broker. */
  readonly after?: Pick<Lone, "broker" | "time">;
  /** Overrides of methods of the controller's connection. */
  readonly overrides?: (inner: Transport, time: ManualClock) => Partial<Transport>;
  readonly environment?: Partial<Environment>;
  readonly options?: Partial<ControllerOptions>;
  /** How much later it is for this process than by the timers. */
  readonly awayMs?: () => number;
}

/** A controller, and what a test does with it. */
export interface Lone {
  readonly controller: Controller;
  readonly config: ControllerOptions["config"];
  readonly broker: MemoryBroker;
  readonly time: ManualClock;
  readonly events: readonly AnyMessage[];
  readonly state: () => ControllerSnapshot["context"]["state"];
  /** How it ended; `null` while it acts. */
  readonly end: () => ControllerEnd | null;
  /** Name of its connection. */
  readonly connection: string;
  /** Lets time pass, a tenth of a second at a time. */
  readonly pass: (ms: number) => Promise<void>;
  /** The voice of a replica, a rollout by default. */
  readonly voice: (id: string, role?: Role) => Voice;
  readonly bodiesOf: <K extends AnyMessage["kind"]>(kind: K) => readonly Body<K>[];
}

/** Whoever reports to a controller. */
type Role = "policy" | "rollout" | "operator";

/** What somebody says. */
export interface Voice {
  readonly say: <K extends AnyMessage["kind"]>(kind: K, body: Body<K>) => Promise<void>;
  readonly register: () => Promise<void>;
  readonly beat: (more?: Partial<Body<"heartbeat.beat">>) => void;
}

let born = 0;

/** Starts it; it has begun its term when this returns. */
export async function startLone({
  set = [],
  overrides = () => ({}),
  awayMs = () => 0,
  ...given
}: LoneOptions = {}): Promise<Lone> {
  const config = smallConfig("never-written", ["timing.tick=100ms", ...set]);
  const { job } = config;
  const time = given.after?.time ?? manualClock();
  const broker = given.after?.broker ?? createMemoryBroker({ job, clock: time });
  const events: AnyMessage[] = [];
  const watcher = broker.connect(`watcher.w.w${++born}`);
  await watcher.tail({ stream: "events", fromSeq: 1, handle: ({ data }) => events.push(decodeMessage(data)) });
  const { environment } = processesOn(broker)();
  const incarnation = `lone-${++born}`;
  const controller = await startController({
    config,
    dataKey: new Uint8Array(32),
    environment: {
      ...environment,
      clock: { now: () => time.now() + awayMs(), after: time.after },
      wallMs: () => 1_700_000_000_000 + time.now(),
      newIncarnation: () => incarnation,
      ...given.environment,
      connect: async (identity) => {
        const inner = await environment.connect(identity);
        return changed(inner, overrides(inner, time));
      },
    },
    ...given.options,
  });
  let end: ControllerEnd | null = null;
  void controller.ended.then((how) => {
    end = how;
  });
  await settled();
  return {
    ...{ controller, config, broker, time, events, connection: `controller.controller.${incarnation}` },
    state: () => controller.snapshot().context.state,
    end: () => end,
    async pass(ms) {
      for (let at = 0; at < ms; at += 100) {
        time.advance(Math.min(100, ms - at));
        await settled();
      }
    },
    voice: (id, role = "rollout") => voiceOn(broker, { job, id, role, incarnation: `${id}-1` }),
    bodiesOf: <K extends AnyMessage["kind"]>(kind: K) =>
      events.flatMap((event) => (event.kind === kind ? [event.body as Body<K>] : [])),
  };
}

function voiceOn(broker: MemoryBroker, identity: Identity): Voice {
  const { job, id, role, incarnation } = identity;
  const transport = broker.connect(`${role}.${id}.${incarnation}`);
  const enveloper = createEnveloper({ ...identity, wallMs: () => 0 });
  const subjects = subjectsOf(job);
  const say: Voice["say"] = async (kind, body) => {
    const message = enveloper.stamp(kind, body as never) as AnyMessage;
    await transport.publish(subjects.report(role, id, kind as never), encodeMessage(message), { msgId: message.id });
    await settled();
  };
  return {
    say,
    register: () => say("replica.register", { role: role as "rollout", host: "h", pid: 1, engineBuild: "b" }),
    beat(more = {}) {
      const body = { version: null, phase: "work.ready", progress: 0, loopLagMs: 0, rssBytes: 1, ...more };
      const message = enveloper.stamp("heartbeat.beat", body) as AnyMessage;
      transport.send(subjects.heartbeat(role, id), encodeMessage(message));
    },
  };
}
