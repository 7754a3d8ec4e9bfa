/** A sampler that also answers requests over HTTP: the engine that its work opens is served over the endpoints of a router's workers. */
import type { Ports, Role } from "@muster/actors";
import type { Logger } from "@muster/base";
import type { SamplerServer, SamplerTokenizer } from "@muster/router";
import { writeServing } from "../job/serving-files.ts";
import type { OpenedRole } from "./actor-process.ts";

/** Where a sampler serves, and whose it is. */
export interface ServingOptions {
  readonly ports: Ports;
  readonly roleOn: (ports: Ports) => Role;
  readonly address: { readonly host: string; readonly port: number };
  readonly token: string | null;
  readonly id: string;
  /** The job's folder, where routers of this host look for samplers. */
  readonly directory: string;
}

/** The role of a sampler whose engine is served, too. */
export function servingRole(options: ServingOptions): OpenedRole {
  const { ports, roleOn, address, token, id, directory } = options;
  let server: SamplerServer | null = null;
  let takeBack = (): void => {};
  return {
    role: "rollout",
    async open(logger: Logger) {
      const { startSamplerServer } = await import("@muster/router");
      server = await startSamplerServer({ ...address, token, logger });
      logger.info({ url: server.url }, "the sampler serves");
      const opened = (incarnation: string, url: string): void => {
        takeBack = writeServing(directory, id, { url, incarnation });
      };
      return roleOn(servedPorts(ports, server, opened, () => takeBack()));
    },
    async close() {
      takeBack();
      await server?.close();
    },
  };
}

/** The same ports, whose engine is served while it is open. A life opens its prompts first, which hold the tokenizer, and then its engine. */
function servedPorts(
  ports: Ports,
  server: SamplerServer,
  opened: (incarnation: string, url: string) => void,
  closed: () => void,
): Ports {
  let tokenizer: SamplerTokenizer | null = null;
  return {
    ...ports,
    async task(config) {
      const task = await ports.task(config);
      tokenizer = task;
      return task;
    },
    async rolloutEngine(config) {
      const engine = await ports.rolloutEngine(config);
      if (tokenizer) opened(server.open(engine, tokenizer), server.url);
      const close = engine.close.bind(engine);
      return Object.assign(engine, {
        async close() {
          closed();
          server.withdraw(engine);
          await close();
        },
      });
    },
  };
}
