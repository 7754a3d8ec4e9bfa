/** Which nats-server the project runs: the operator's choice, then PATH, then the one that set-up fetched. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { musterDirectory, root } from "../paths.mjs";
import { SetupError } from "./setup-error.mjs";
import { which } from "./which.mjs";

const required = { major: 2, minor: 11 };
const requiredText = `${required.major}.${required.minor}`;
const fetched = join(musterDirectory, "bin/nats-server");
const fetchScript = join(root, "scripts/get-nats-server.sh");

const otherwise =
  `download nats-server ${requiredText} or newer (https://github.com/nats-io/nats-server/releases) and put it on PATH, ` +
  "or set MUSTER_NATS_SERVER=/path/to/nats-server, or set MUSTER_NATS_URL=nats://host:4222 to use a running server with JetStream";

/**
 * Finds a nats-server that is new enough.
 *
 * @param {NodeJS.ProcessEnv} environment
 * @returns {string | null} Its path, or null when there is none yet.
 * @throws {SetupError} when MUSTER_NATS_SERVER names one that does not run or is too old.
 */
export function findNatsServer(environment) {
  const chosen = environment.MUSTER_NATS_SERVER;
  if (chosen) {
    const version = versionOf(chosen);
    if (isEnough(version)) return chosen;
    const what = version === null ? "does not run" : `is version ${version}, older than ${requiredText}`;
    throw new SetupError(`MUSTER_NATS_SERVER=${chosen} ${what}`, { fix: `unset it, or ${otherwise}` });
  }
  const candidates = [which("nats-server", environment), which(fetched, environment)];
  return candidates.find((path) => path !== null && isEnough(versionOf(path))) ?? null;
}

/** @type {import("./steps.mjs").Step} */
export const natsServerStep = {
  name: "natsServer",
  label: `nats-server (${requiredText} or newer)`,
  isPresent: (environment) => Boolean(environment.MUSTER_NATS_URL) || findNatsServer(environment) !== null,
  run: fetchNatsServer,
};

/** @param {import("./steps.mjs").StepContext} context */
async function fetchNatsServer({ run, environment }) {
  if (which("apt-get", environment) === null || which("dpkg", environment) === null) {
    throw new SetupError(
      `no nats-server ${requiredText} or newer was found, and this system has no apt to fetch one with`,
      { fix: otherwise },
    );
  }
  const { code, tail } = await run("bash", [fetchScript, fetched, requiredText], { cwd: root, timeoutMs: 10 * 60_000 });
  if (code !== 0) throw new SetupError("no nats-server could be fetched through apt", { fix: otherwise, tail });
}

/** Asks a nats-server for its version; null when it does not run. @param {string} path */
function versionOf(path) {
  try {
    const text = execFileSync(path, ["--version"], {
      encoding: "utf8",
      timeout: 10_000,
      stdio: ["ignore", "pipe", "ignore"],
    });
    return /v(\d+\.\d+\.\d+)/.exec(text)?.[1] ?? null;
  } catch {
    // A file that cannot be run is no candidate; the caller says so in its own words.
    return null;
  }
}

/** @param {string | null} version */
function isEnough(version) {
  const [major = 0, minor = 0] = (version ?? "").split(".").map(Number);
  return major > required.major || (major === required.major && minor >= required.minor);
}
