/** Dependencies exactly as the lockfile names them. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../paths.mjs";
import { pnpmScript } from "./package-manager.mjs";
import { packageManagerFix, SetupError } from "./setup-error.mjs";
import { fingerprintOf } from "./stamp.mjs";

/** Manifests of the workspace, from the root. */
function manifests() {
  const packages = readdirSync(join(root, "packages")).map((name) => `packages/${name}/package.json`);
  return [
    "package.json",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "native/package.json",
    "bench/package.json",
    ...packages,
  ];
}

/** @type {import("./steps.mjs").Step} */
export const dependenciesStep = {
  name: "dependencies",
  label: "dependencies",
  fingerprint: () => fingerprintOf(root, manifests()),
  isPresent: () => existsSync(join(root, "node_modules/.modules.yaml")),
  run: install,
};

/** @param {import("./steps.mjs").StepContext} context */
async function install({ run, environment }) {
  const flags = ["--frozen-lockfile", "--prefer-offline", "--prod=false", "--reporter=append-only"];
  const { code, tail } = await run(process.execPath, [pnpmScript, "install", ...flags], {
    cwd: root,
    env: { ...environment, CI: "true" },
  });
  if (code === 0) return;
  const fix = tail.includes("OUTDATED_LOCKFILE")
    ? "a package.json changed without the lockfile: run `npm run pnpm -- install --no-frozen-lockfile` and commit pnpm-lock.yaml"
    : packageManagerFix(tail, "see what pnpm said above");
  throw new SetupError("pnpm could not install the dependencies", { fix, tail });
}
