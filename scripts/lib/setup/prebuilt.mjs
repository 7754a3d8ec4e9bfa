/**
 * The native addon as somebody else built it: taken in place of a build when it is of these very sources, for this kind of machine, whole, and loads.
 * Anything else is refused by name, and nothing is built in its place unasked.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { musterDirectory, root } from "../paths.mjs";
import { SetupError } from "./setup-error.mjs";
import { fingerprintOf } from "./stamp.mjs";

/** Names a folder, an archive or the address of an archive. */
export const prebuiltVariable = "MUSTER_PREBUILT";

/** Names in a folder or an archive. */
export const addonName = "muster_native.node";
export const manifestName = "prebuilt.json";

const fetchMs = 120_000;
const bytesMax = 128 * 1024 ** 2;
const inputs = ["native/CMakeLists.txt", "native/package.json", "native/src"];
/** The packages that the build uses, as the lock file has them: other dependencies do not change the addon. */
const buildPackages = /^ {2}(?:cmake-js|node-addon-api)@.*$/gm;

/**
 * What an addon depends on. `napi` is the interface to Node that it is compiled against: the same binary serves every Node that has it.
 *
 * @typedef {{ sources: string, platform: string, arch: string, libc: string, napi: number }} AddonStamp
 * @typedef {AddonStamp & { sha256: string }} PrebuiltManifest
 */

/** The sources of the addon. @returns {string} */
export function nativeFingerprint() {
  const locked = readFileSync(join(root, "pnpm-lock.yaml"), "utf8").match(buildPackages) ?? [];
  return fingerprintOf(root, inputs, [process.platform, process.arch, ...locked].join("\0"));
}

/** The stamp of an addon that is built here. @returns {AddonStamp} */
function stampHere() {
  const manifest = JSON.parse(readFileSync(join(root, "native/package.json"), "utf8"));
  const header = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport()).header;
  return {
    sources: nativeFingerprint(),
    platform: process.platform,
    arch: process.arch,
    libc: header.glibcVersionRuntime === undefined ? "other" : "glibc",
    napi: manifest.binary.napi_versions[0],
  };
}

/** Writes an addon with its manifest. @param {string} addon @param {string} folder */
export function writePrebuilt(addon, folder) {
  mkdirSync(folder, { recursive: true });
  copyFileSync(addon, join(folder, addonName));
  const manifest = { ...stampHere(), sha256: sha256Of(join(folder, addonName)) };
  writeFileSync(join(folder, manifestName), `${JSON.stringify(manifest, null, 2)}\n`);
}

/**
 * Writes an addon with its manifest, and an archive of both.
 *
 * @param {string} addon
 * @param {string} folder
 * @returns {string} The path of the archive.
 * @throws {SetupError} when `tar` fails.
 */
export function packPrebuilt(addon, folder) {
  writePrebuilt(addon, folder);
  const archive = join(folder, `muster-native-${process.platform}-${process.arch}.tar.gz`);
  const { status, stderr, error } = spawnSync("tar", ["-czf", archive, "-C", folder, addonName, manifestName]);
  if (status === 0) return archive;
  throw new SetupError(`${archive} could not be written`, { fix: "see above", tail: error?.message ?? String(stderr) });
}

/**
 * Puts a prebuilt addon in its place.
 *
 * @param {string} from - What {@link prebuiltVariable} says.
 * @param {string} output - The folder of the addon.
 * @throws {SetupError} that says what does not fit.
 */
export async function takePrebuilt(from, output) {
  const work = join(musterDirectory, `prebuilt.${process.pid}`);
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  try {
    const folder = await opened(from, work);
    const addon = join(folder, addonName);
    const flaw = flawOf(folder);
    if (flaw !== null) throw refusal(from, flaw);
    mkdirSync(output, { recursive: true });
    const draft = join(output, `${process.pid}.${addonName}`);
    copyFileSync(addon, draft);
    const fault = loadFault(draft);
    if (fault !== null) {
      rmSync(draft, { force: true });
      throw refusal(from, `it does not load: ${fault}`);
    }
    renameSync(draft, join(output, addonName));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** What is wrong with an addon in a folder. @param {string} folder @returns {string | null} */
function flawOf(folder) {
  const paths = [addonName, manifestName].map((name) => join(folder, name));
  const missing = paths.find((path) => !existsSync(path));
  if (missing !== undefined) return `there is no ${missing}`;
  const manifest = readManifest(join(folder, manifestName));
  if (manifest === null) return `${manifestName} is not what \`npm run prebuild:native\` writes`;
  for (const [field, here] of Object.entries(stampHere())) {
    const there = manifest[/** @type {keyof AddonStamp} */ (field)];
    if (there !== here) return `its ${field} is ${String(there)}, and here it is ${here}`;
  }
  const digest = sha256Of(join(folder, addonName));
  return digest === manifest.sha256 ? null : `its digest is ${digest}, and its manifest says ${manifest.sha256}`;
}

/** @param {string} path @returns {PrebuiltManifest | null} */
function readManifest(path) {
  try {
    const value = JSON.parse(readFileSync(path, "utf8"));
    return typeof value === "object" ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** A folder with what was given. @param {string} from @param {string} work @returns {Promise<string>} */
async function opened(from, work) {
  const archive = /^https?:\/\//.test(from) ? await fetched(from, work) : resolve(from);
  const found = statSync(archive, { throwIfNoEntry: false });
  if (!found) throw refusal(from, "it is not there");
  if (found.isDirectory()) return archive;
  const { status, stderr, error } = spawnSync("tar", ["-xzf", archive, "-C", work, addonName, manifestName]);
  if (status !== 0) throw refusal(from, `it can not be unpacked: ${error?.message ?? String(stderr).trim()}`);
  return work;
}

/** @param {string} url @param {string} work @returns {Promise<string>} */
async function fetched(url, work) {
  const path = join(work, "archive.tar.gz");
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(fetchMs) });
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    const bytes = Buffer.from(await response.arrayBuffer());
    if (bytes.length > bytesMax) throw new Error(`it has ${bytes.length} bytes, more than ${bytesMax}`);
    writeFileSync(path, bytes);
    return path;
  } catch (error) {
    const { message, cause } = /** @type {Error} */ (error);
    throw refusal(url, `it can not be fetched: ${cause instanceof Error ? cause.message : message}`);
  }
}

/** Loads it in a process of its own: what it needs of the system may not be there. @param {string} path @returns {string | null} */
function loadFault(path) {
  const { status, stderr } = spawnSync(process.execPath, ["-e", `require(${JSON.stringify(path)})`], {
    timeout: 30_000,
  });
  if (status === 0) return null;
  const lines = String(stderr).split("\n");
  return lines.find((line) => /^\w*Error: /.test(line)) ?? `it ends the process with ${status ?? "a signal"}`;
}

/** @param {string} from @param {string} flaw */
function refusal(from, flaw) {
  return new SetupError(`${prebuiltVariable}=${from} is refused: ${flaw}`, {
    fix: `unset ${prebuiltVariable} to build it here, or make one of this checkout with \`npm run prebuild:native\``,
  });
}

/** @param {string} path */
function sha256Of(path) {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}
