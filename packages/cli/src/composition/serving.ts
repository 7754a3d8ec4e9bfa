/** A sampler that also answers requests over HTTP: the engine that its work opens is served by the doors of a router's workers. */
import type { Doors, Role } from "@muster/actors";
import type { Logger } from "@muster/base";
import type { SamplerServer, SamplerTokenizer } from "@muster/router";
import { writeServing } from "../job/serving-files.ts";
import type { OpenedRole } from "./actor-process.ts";

/** Where a sampler serves, and whose it is. */
export interface ServingOptions {
  readonly doors: Doors;
  readonly roleOn: (doors: Doors) => Role;
  readonly address: { readonly host: string; readonly port: number };
  readonly token: string | null;
  readonly id: string;
  /** The job's folder, where routers of this host look for samplers. */
  readonly directory: string;
}

/** The role of a sampler whose engine is served, too. */
export function servingRole(options: ServingOptions): OpenedRole {
  const { doors, roleOn, address, token, id, directory } = options;
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
      return roleOn(servedDoors(doors, server, opened, () => takeBack()));
    },
    async close() {
      takeBack();
      await server?.close();
    },
  };
}

/** The same doors, whose engine is served while it is open. A life opens its prompts first, which hold the tokenizer, and then its engine. */
function servedDoors(
  doors: Doors,
  server: SamplerServer,
  opened: (incarnation: string, url: string) => void,
  closed: () => void,
): Doors {
  let tokenizer: SamplerTokenizer | null = null;
  return {
    ...doors,
    async task(config) {
      const task = await doors.task(config);
      tokenizer = task;
      return task;
    },
    async rolloutEngine(config) {
      const engine = await doors.rolloutEngine(config);
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
