/** Whatever fails while a controller begins ends it with its cause, and leaves nothing open behind it. */
import { defineErrors } from "@muster/base";
import type { Transport } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import { describe, expect, it, vi } from "vitest";
import { startController } from "../src/controller/index.ts";
import type { Environment } from "../src/index.ts";
import { clock, processesOn } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";

const config = smallConfig("never-written");
const errors = defineErrors("TEST_OPEN", { Refused: { message: "{what} is refused" } });
const refuse = (what: string) => async (): Promise<never> => {
  throw errors.Refused({ what });
};

/** What a broker does otherwise. */
type Patch = (inner: Transport) => Partial<Transport>;

/** What is open: connections, subscriptions, timers. */
interface Ledger {
  open: number;
}

/** Counts what a transport opens and closes. */
function counted(transport: Transport, ledger: Ledger, patch: Patch): Transport {
  const opened = <T extends { close(): Promise<void> }>(thing: T): T => {
    ledger.open += 1;
    let isOpen = true;
    const close = async (): Promise<void> => {
      if (isOpen) ledger.open -= 1;
      isOpen = false;
      await thing.close();
    };
    return { ...thing, close };
  };
  const bound = new Proxy(transport, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const whole: Transport = {
    job: transport.job,
    publish: bound.publish,
    send: bound.send,
    fetch: bound.fetch,
    purge: bound.purge,
    usage: bound.usage,
    tail: bound.tail,
    journal: bound.journal,
    state: bound.state,
    isConnected: bound.isConnected,
    flush: bound.flush,
    subscribe: async (...given) => opened(await transport.subscribe(...given)),
    consume: async (options) => opened(await transport.consume(options)),
    onStatus: (listener) => {
      const stop = transport.onStatus(listener);
      ledger.open += 1;
      return () => {
        ledger.open -= 1;
        stop();
      };
    },
    close: bound.close,
  };
  return opened({ ...whole, ...patch(whole) });
}

/** A process whose broker does what `patch` says. */
function world(patch: Patch, more: Partial<Environment> = {}) {
  const ledger: Ledger = { open: 0 };
  const broker = createMemoryBroker({ job: config.job, clock });
  const { environment } = processesOn(broker)();
  const timed = {
    now: clock.now,
    after: (ms: number, run: () => void) => {
      ledger.open += 1;
      let isOpen = true;
      const end = (): void => {
        if (isOpen) ledger.open -= 1;
        isOpen = false;
      };
      const cancel = clock.after(ms, () => {
        end();
        run();
      });
      return () => {
        end();
        cancel();
      };
    },
  };
  const connect: Environment["connect"] = async (identity) => {
    const inner = await environment.connect(identity);
    return counted(inner, ledger, patch);
  };
  return { broker, ledger, environment: { ...environment, clock: timed, connect, ...more } };
}

type Calls = Record<string, Patch>;

const whileOpening: Calls = {
  consume: () => ({ consume: refuse("consume") }),
  subscribe: () => ({ subscribe: refuse("subscribe") }),
  onStatus: () => ({
    onStatus: () => {
      throw errors.Refused({ what: "onStatus" });
    },
  }),
  "journal.append": (inner) => ({ journal: () => ({ ...inner.journal(), append: refuse("journal.append") }) }),
};

const beforeOpening: Calls = {
  "journal.read": (inner) => ({
    journal: () => ({
      ...inner.journal(),
      // biome-ignore lint/correctness/useYield: it fails before its first record
      async *read() {
        throw errors.Refused({ what: "journal.read" });
      },
    }),
  }),
  "journal.head": (inner) => ({ journal: () => ({ ...inner.journal(), head: refuse("journal.head") }) }),
};

const start = (environment: Environment) => startController({ config, dataKey: new Uint8Array(32), environment });

describe("a controller that can not begin", () => {
  it.each(Object.entries(whileOpening))(
    "ends with its cause and closes everything when %s fails",
    async (what, patch) => {
      const { environment, ledger } = world(patch);
      const controller = await start(environment);
      expect(await controller.ended).toEqual({ outcome: "failed", reason: `${what} is refused` });
      await vi.waitFor(() => expect(ledger.open).toBe(0));
    },
  );

  it.each(Object.entries(beforeOpening))(
    "is refused with its cause, and disconnected, when %s fails",
    async (what, patch) => {
      const { environment, ledger } = world(patch);
      await expect(start(environment)).rejects.toThrow(`${what} is refused`);
      expect(ledger.open).toBe(0);
    },
  );

  it("goes on without the announcements of ended connections when they are refused", async () => {
    const { environment, ledger } = world(() => ({}), { watchDisconnects: refuse("watchDisconnects") });
    const controller = await start(environment);
    controller.abort("over");
    expect((await controller.ended).outcome).toBe("aborted");
    await vi.waitFor(() => expect(ledger.open).toBe(0));
  });

  const late: Readonly<Record<string, (until: Promise<void>) => { patch?: Patch; more?: Partial<Environment> }>> = {
    consume: (until) => ({
      patch: (inner) => ({ consume: (options) => inner.consume(options).finally(() => until) }),
    }),
    subscribe: (until) => ({
      patch: (inner) => ({ subscribe: (...given) => inner.subscribe(...given).finally(() => until) }),
    }),
    watchDisconnects: (until) => ({
      more: { watchDisconnects: () => until.then(() => ({ close: async () => void watches.push("closed") })) },
    }),
  };
  let watches: string[] = [];

  it.each(Object.keys(late))("closes what %s opens after its end, and nobody waits for that", async (what) => {
    watches = [];
    let go = (): void => {};
    const until = new Promise<void>((resolve) => {
      go = resolve;
    });
    const { patch, more } = late[what]?.(until) ?? {};
    const appendRefused: Patch = (inner) => ({
      journal: () => ({ ...inner.journal(), append: refuse("append") }),
      ...patch?.(inner),
    });
    const { environment, ledger } = world(appendRefused, more);
    const controller = await start(environment);
    expect(await controller.ended).toEqual({ outcome: "failed", reason: "append is refused" });
    go();
    await vi.waitFor(() => expect(ledger.open).toBe(0));
    if (what === "watchDisconnects") await vi.waitFor(() => expect(watches).toEqual(["closed"]));
  });
});
