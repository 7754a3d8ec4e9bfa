/** A running gateway: the coordinator behind its HTTP edge. */
import { type Clock, type Logger, messageOf } from "@muster/base";
import { isLoopback, shownHost } from "@muster/http";
import { Coordinator } from "./coordinator.ts";
import { errors } from "./errors.ts";
import type { Grant } from "./http/guard.ts";
import { createHttp, portOf } from "./http/server.ts";
import { memoryJournal, openFileJournal } from "./journal/file-journal.ts";
import { MetricsCollector } from "./metrics/collector.ts";
import { CoordinatorMeters } from "./metrics/coordinator-meters.ts";
import { emptyTopology, rulesDefault, type TopologyRules } from "./topology/state.ts";

/** What a gateway is started with. */
export interface GatewayOptions {
  /** Default `127.0.0.1`. Anything that other machines reach needs grants and TLS, or {@link GatewayOptions.plainHttp}. */
  readonly host?: string;
  /** 0 for any free port. Default 8000. */
  readonly port?: number;
  /** Folder of the journal; without one the state ends with the process. */
  readonly stateFolder?: string;
  readonly rules?: Partial<TopologyRules>;
  readonly grants?: readonly Grant[];
  /** Names by which the server may be called, besides addresses and `localhost`. */
  readonly hosts?: readonly string[];
  /** Origins of pages that may call it. */
  readonly origins?: readonly string[];
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Tokens may cross the network unencrypted. */
  readonly plainHttp?: boolean;
  /** Bytes of a body. Default 4 MiB. */
  readonly bodyMax?: number;
  /** Requests of one address; default 10,000 a second. */
  readonly rate?: { readonly perSecond: number; readonly burst: number };
  readonly clock: Clock;
  readonly logger: Logger;
  /** Wall time in ms since 1970; default that of the process. */
  readonly wallMs?: () => number;
}

/** A running gateway. */
export interface Gateway {
  readonly url: string;
  readonly port: number;
  /** Resolves with a fault after which nothing is answered any more. */
  readonly failed: Promise<unknown>;
  close(): Promise<void>;
}

const hostDefault = "127.0.0.1";
const portDefault = 8_000;
const rateDefault = { perSecond: 10_000, burst: 20_000 };
const bodyMaxDefault = 4 * 2 ** 20;

/**
 * Starts a gateway.
 *
 * @throws MUSTER_ERR_GATEWAY_OPEN when others could reach it without a token or in plain text, MUSTER_ERR_GATEWAY_ADDRESS when it can
 * not listen, MUSTER_ERR_GATEWAY_STATE and MUSTER_ERR_GATEWAY_STATE_BUSY for its folder.
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { host = hostDefault, port = portDefault, clock, logger, wallMs = Date.now } = options;
  refuseOpen(host, options);
  const rules = { ...rulesDefault, ...options.rules };
  const { state, journal } =
    options.stateFolder === undefined
      ? { state: emptyTopology, journal: memoryJournal() }
      : await openFileJournal(options.stateFolder, rules);
  let fail: (error: unknown) => void = () => {};
  const failed = new Promise<unknown>((resolve) => {
    fail = resolve;
  });
  const coordinator = new Coordinator({
    ...{ clock, rules, journal, state },
    onDeaths: (ids) => logger.warn({ ids: ids.slice(0, 100), count: ids.length }, "processes are dead: no heartbeat"),
    onFailure: (error) => {
      logger.error({ error, reason: messageOf(error) }, "the journal can not be written");
      fail(error);
    },
  });
  const collector = new MetricsCollector(() => clock.now());
  const meters = new CoordinatorMeters(coordinator);
  const app = createHttp({
    ...{ coordinator, clock, logger },
    grants: options.grants ?? [],
    hosts: [host.toLowerCase(), ...(options.hosts ?? [])],
    origins: options.origins ?? [],
    bodyMax: options.bodyMax ?? bodyMaxDefault,
    rate: options.rate ?? rateDefault,
    tls: options.tls ?? null,
    metrics: () => collector.exportPrometheus() + meters.exportPrometheus(),
    onAnswer: (route, status, seconds) => {
      meters.answered(route, status, seconds);
      if (status >= 400) collector.recordError(`http_${status}`);
    },
    wallSeconds: () => wallMs() / 1_000,
  });
  app.server.on("connection", (socket) => {
    collector.activeConnections.inc();
    socket.once("close", () => collector.activeConnections.dec());
  });
  const close = async (): Promise<void> => {
    coordinator.dismiss();
    await app.close();
    await coordinator.close();
  };
  try {
    await coordinator.start();
    await app.listen({ host, port });
  } catch (error) {
    await close();
    throw errorOfStart(error, { host, port });
  }
  const url = `${options.tls === undefined ? "http" : "https"}://${shownHost(host)}:${portOf(app)}`;
  return { url, port: portOf(app), failed, close };
}

function errorOfStart(error: unknown, at: { readonly host: string; readonly port: number }): unknown {
  const code = (error as NodeJS.ErrnoException).code ?? "";
  return /^E[A-Z]+$/.test(code) ? errors.GatewayAddress({ ...at, reason: messageOf(error) }, error) : error;
}

function refuseOpen(host: string, { grants = [], tls, plainHttp = false }: GatewayOptions): void {
  if (isLoopback(host)) return;
  if (grants.length === 0)
    throw errors.GatewayOpen({ host, missing: "there are no tokens", option: "tokens with --tokens" });
  if (tls === undefined && !plainHttp)
    throw errors.GatewayOpen({
      ...{ host, missing: "tokens would cross the network unencrypted" },
      option: "--tls-cert and --tls-key, or --plain-http where the network is trusted",
    });
}
