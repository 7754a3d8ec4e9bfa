/** A real nats-server for a test, with a prepared job and a user per role. */
import {
  type BrokerRole,
  connectNats,
  type LocalServer,
  type PrepareOptions,
  prepareJob,
  startLocalServer,
  type Transport,
} from "@muster/transport";
import { findNatsServer } from "./nats-binary.ts";
import { makeTempDirectory } from "./temp-directory.ts";

const connectTimeoutMs = 5_000;

/** A running server that is removed with everything it stored. */
export interface TestServer {
  readonly server: LocalServer;
  readonly url: string;
  readonly job: string;
  readonly directory: string;
  /** Connects as the user of the role with which `name` (`<role>.<id>.<incarnation>`) begins. */
  connect(name: string): Promise<Transport>;
  /** Closes its connections, stops the server and removes the files. */
  close(): Promise<void>;
}

/** How to start a test server. */
export interface TestServerOptions {
  /** Default `test`. */
  readonly job?: string;
  /** Creates the streams of the job; default true. */
  readonly prepare?: boolean;
  /** Bytes that streams may hold; default those of every job. */
  readonly bytesMax?: PrepareOptions["bytesMax"];
}

/** Starts a server in a folder of its own. The caller closes it. */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const job = options.job ?? "test";
  const directory = await makeTempDirectory();
  const server = await startLocalServer({ binary: findNatsServer(), directory: directory.path, job });
  const { url, credentials } = server;
  const opened: Transport[] = [];
  if (options.prepare ?? true) {
    const limits = options.bytesMax ? { bytesMax: options.bytesMax } : {};
    await prepareJob({ url, job, credentials: credentials.controller, connectTimeoutMs, ...limits });
  }
  return {
    server,
    url,
    job,
    directory: directory.path,
    async connect(name) {
      const role = name.split(".")[0] as BrokerRole;
      const transport = await connectNats({ url, job, name, credentials: credentials[role], connectTimeoutMs });
      opened.push(transport);
      return transport;
    },
    async close() {
      for (const transport of opened) await transport.close();
      await server.stop();
      await directory.remove();
    },
  };
}
