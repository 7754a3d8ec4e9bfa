/** The project's own pnpm, in `.muster/pnpm`: neither a global one nor corepack is needed, and neither is touched. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { musterDirectory } from "../paths.mjs";
import { packageManagerFix, SetupError } from "./setup-error.mjs";
import { which } from "./which.mjs";

const version = "10.34.9";
const folder = join(musterDirectory, "pnpm");

/** Path of pnpm's script, to be run by Node. */
export const pnpmScript = join(folder, "node_modules/pnpm/bin/pnpm.cjs");

/** @type {import("./steps.mjs").Step} */
export const packageManagerStep = {
  name: "packageManager",
  label: `package manager (pnpm ${version})`,
  isPresent: () => installedVersion() === version && existsSync(pnpmScript),
  run: installPnpm,
};

function installedVersion() {
  const manifest = join(folder, "node_modules/pnpm/package.json");
  return existsSync(manifest) ? JSON.parse(readFileSync(manifest, "utf8")).version : null;
}

/** Installs into a draft folder that is renamed when it is whole. @param {import("./steps.mjs").StepContext} context */
async function installPnpm({ run, environment }) {
  const npm = npmCommand(environment);
  const draft = `${folder}.new`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  writeFileSync(join(draft, "package.json"), '{ "private": true }\n');
  const flags = ["--prefix", draft, "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"];
  const [command = "npm", ...prefix] = npm;
  const { code, tail } = await run(command, [...prefix, "install", ...flags, `pnpm@${version}`], { cwd: draft });
  if (code !== 0) {
    const fix = packageManagerFix(tail, "see what npm said above; `npm --version` must work");
    throw new SetupError(`npm could not install pnpm ${version}`, { fix, tail });
  }
  rmSync(folder, { recursive: true, force: true });
  renameSync(draft, folder);
}

/** The npm that runs us, else the one on PATH. @param {NodeJS.ProcessEnv} environment @returns {string[]} */
function npmCommand(environment) {
  const running = process.env.npm_execpath;
  if (running?.endsWith("npm-cli.js") && existsSync(running)) return [process.execPath, running];
  const found = which("npm", environment);
  if (found !== null) return [found];
  throw new SetupError("npm is not on PATH", { fix: "install Node with npm (https://nodejs.org) and run it again" });
}
