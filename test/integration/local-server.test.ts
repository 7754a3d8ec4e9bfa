import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, stat, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  findNatsServer,
  makeTempDirectory,
  processesNaming,
  startTestServer,
  type TempDirectory,
  waitFor,
} from "@muster/testkit";
import {
  connectNats,
  type LocalServer,
  type LocalServerOptions,
  type ServerExit,
  serverVersionMin,
  startLocalServer,
} from "@muster/transport";
import { afterEach, beforeEach, expect, test } from "vitest";

let directory: TempDirectory;
let started: LocalServer[];
beforeEach(async () => {
  directory = await makeTempDirectory();
  started = [];
});
afterEach(async () => {
  for (const server of started) await server.kill();
  await directory.remove();
});

async function start(options: Partial<LocalServerOptions> = {}): Promise<LocalServer> {
  const server = await startLocalServer({
    binary: findNatsServer(),
    directory: directory.path,
    job: "test",
    ...options,
  });
  started.push(server);
  return server;
}

test("it listens on loopback and writes its secrets where only the owner can read them", async () => {
  const server = await start();
  expect(server.url).toBe(`nats://127.0.0.1:${server.port}`);
  expect(server.monitoringUrl).toBeNull();
  const modeOf = async (...path: string[]) => (await stat(join(directory.path, ...path))).mode & 0o777;
  expect([await modeOf("server.conf"), await modeOf("server.json")]).toEqual([0o600, 0o600]);
  expect(new Set(Object.values(server.credentials).map(({ seed }) => seed)).size).toBe(9);
});

test("it opens the monitoring endpoint when asked to", async () => {
  const server = await start({ monitoring: true });
  const response = await fetch(`${server.monitoringUrl}/healthz`);
  expect(response.status).toBe(200);
});

test("the folder of a broker that had fewer roles gets the missing ones, and the others keep their keys", async () => {
  const before = await start({ otherJobs: ["other"] });
  await before.kill();
  const path = join(directory.path, "server.json");
  const saved = JSON.parse(await readFile(path, "utf8"));
  for (const users of [saved.credentials, saved.others.other]) delete users.script;
  await writeFile(path, JSON.stringify(saved));
  const { credentials, others } = await start({ otherJobs: ["other"] });
  expect(credentials).toEqual({ ...before.credentials, script: credentials.script });
  expect(others.other?.script.seed).toMatch(/^SA/);
});

test("the folder of a broker of an earlier version is left as it is, and told what to do about", async () => {
  const before = JSON.stringify({ port: 4222, ownerPid: 0, credentials: { controller: { user: "c", password: "p" } } });
  await writeFile(join(directory.path, "server.json"), before);
  const starting = start();
  await expect(starting).rejects.toMatchObject({
    code: "MUSTER_ERR_BROKER_OF_BEFORE",
    params: { directory: directory.path },
  });
  await expect(starting).rejects.toThrow(/use another job name/);
  expect(await readFile(join(directory.path, "server.json"), "utf8")).toBe(before);
});

test("a server below the floor of versions is refused at connect, with its version and the one that is needed", async () => {
  const { credentials } = await start();
  const info = { server_id: "S", version: "2.10.27", proto: 1, headers: true, max_payload: 1_048_576, nonce: "n" };
  const old = createServer((socket) => {
    socket.write(`INFO ${JSON.stringify(info)}\r\n`);
    socket.on("data", (data) => void (data.includes("PING") && socket.write("PONG\r\n")));
    socket.on("error", () => socket.destroy());
  });
  old.listen(0, "127.0.0.1");
  await once(old, "listening");
  const { port } = old.address() as AddressInfo;
  const connecting = connectNats({
    ...{ url: `nats://127.0.0.1:${port}`, job: "test", credentials: credentials.rollout },
    ...{ name: "rollout.r0.a1", connectTimeoutMs: 10_000 },
  });
  await expect(connecting).rejects.toMatchObject({
    code: "MUSTER_ERR_BROKER_TOO_OLD",
    params: { version: "2.10.27", minimum: serverVersionMin },
  });
  expect(serverVersionMin).toBe("2.11.0");
  old.close();
});

test("a port in use is named in the error", async () => {
  const other = await startTestServer({ prepare: false });
  try {
    await expect(start({ port: other.server.port })).rejects.toMatchObject({
      code: "MUSTER_ERR_PORT_IN_USE",
      params: { port: other.server.port, holder: ` by process ${other.server.pid} (nats-server)` },
    });
  } finally {
    await other.close();
  }
});

test("a program that is missing or does not start as a server is reported with what to set", async () => {
  await expect(start({ binary: "/nonexistent/nats-server" })).rejects.toMatchObject({
    code: "MUSTER_ERR_BROKER_BINARY",
    message: expect.stringContaining("MUSTER_NATS_SERVER"),
  });
  await expect(start({ binary: "/bin/false" })).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_START" });
});

test("an unexpected end is announced, an asked one is not, and a restart keeps address and credentials", async () => {
  const exits: ServerExit[] = [];
  const server = await start({ onExit: (exit) => exits.push(exit) });
  const { url, pid } = server;
  process.kill(pid, "SIGKILL");
  await waitFor(() => exits.length === 1, { what: "the announcement of the end" });
  expect(exits[0]).toMatchObject({ code: null, signal: "SIGKILL" });
  await server.restart();
  expect(server.url).toBe(url);
  expect(server.pid).not.toBe(pid);
  await server.stop();
  await server.stop();
  expect(exits).toHaveLength(1);
});

test("a directory used before keeps its port and credentials", async () => {
  const first = await start();
  await first.stop();
  const second = await start();
  expect(second.port).toBe(first.port);
  expect(second.credentials).toEqual(first.credentials);
});

test("a directory whose port was taken meanwhile gets another one, unless others know it", async () => {
  const first = await start();
  await first.stop();
  const taker = createServer().listen(first.port, "127.0.0.1");
  await once(taker, "listening");
  try {
    await expect(start({ keepsPort: true })).rejects.toMatchObject({ code: "MUSTER_ERR_PORT_IN_USE" });
    const second = await start();
    expect(second.port).not.toBe(first.port);
    expect(second.moved).toMatch(`port ${first.port} is in use by process ${process.pid} `);
    expect(second.credentials).toEqual(first.credentials);
    const url = second.url;
    await second.restart();
    expect(second.url).toBe(url);
  } finally {
    taker.close();
  }
});

/** Starts a process that owns a server of the directory and says its pid when it runs, or is killed as soon as the server is there. */
function startOwner({ isKilledAtOnce = false } = {}) {
  const options = { binary: findNatsServer(), directory: directory.path, job: "test" };
  const code = `import childProcess from "node:child_process";
    import { syncBuiltinESMExports } from "node:module";
    const { spawn } = childProcess;
    childProcess.spawn = (file, ...rest) => {
      const child = spawn(file, ...rest);
      if (${isKilledAtOnce} && file === ${JSON.stringify(options.binary)}) process.kill(process.pid, "SIGKILL");
      return child;
    };
    syncBuiltinESMExports();
    const { startLocalServer } = await import("@muster/transport");
    console.log((await startLocalServer(${JSON.stringify(options)})).pid);`;
  return spawn(process.execPath, ["--input-type=module", "-e", code], {
    cwd: fileURLToPath(new URL("../../", import.meta.url)),
    stdio: ["ignore", "pipe", "inherit"],
  });
}

const untilNobody = () =>
  waitFor(() => processesNaming(directory.path).length === 0, {
    what: "the end of the server and of who watches it",
    timeoutMs: 8_000,
    detail: () => processesNaming(directory.path),
  });

test("a frozen server does not outlive its killed owner", async () => {
  const owner = startOwner();
  const [text] = await once(owner.stdout, "data");
  process.kill(Number(text), "SIGSTOP");
  owner.kill("SIGKILL");
  await untilNobody();
});

test("a server whose owner is killed at the moment that it is started does not outlive it", async () => {
  const owner = startOwner({ isKilledAtOnce: true });
  await once(owner, "exit");
  expect(owner.signalCode).toBe("SIGKILL");
  await untilNobody();
});

test("a directory whose server and owner live is not taken over", async () => {
  const first = await start();
  await expect(start()).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_STORE_IN_USE", params: { pid: first.pid } });
});

test("a server left behind by a killed owner is replaced on the same port", async () => {
  const exits: ServerExit[] = [];
  const first = await start({ onExit: (exit) => exits.push(exit) });
  const path = join(directory.path, "server.json");
  const saved = JSON.parse(await readFile(path, "utf8")) as object;
  const pidOfNobody = 2 ** 22 + 1;
  await writeFile(path, JSON.stringify({ ...saved, ownerPid: pidOfNobody }));
  const second = await start();
  expect(second.port).toBe(first.port);
  await waitFor(() => exits.length === 1, { what: "the end of the server left behind" });
});
