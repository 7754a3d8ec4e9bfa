/** The packages' `dist` folders, built by the TypeScript compiler from the project references. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../paths.mjs";
import { SetupError } from "./setup-error.mjs";
import { fingerprintOf } from "./stamp.mjs";

const packageNames = () => readdirSync(join(root, "packages"));

function inputs() {
  const perPackage = packageNames().flatMap((name) =>
    ["src", "package.json", "tsconfig.json"].map((entry) => `packages/${name}/${entry}`),
  );
  return ["tsconfig.json", "tsconfig.base.json", "pnpm-lock.yaml", ...perPackage];
}

/** @type {import("./steps.mjs").Step} */
export const typescriptBuildStep = {
  name: "typescriptBuild",
  label: "packages (TypeScript)",
  fingerprint: () => fingerprintOf(root, inputs()),
  isPresent: () => packageNames().every((name) => existsSync(join(root, "packages", name, "dist/index.js"))),
  run: build,
};

/** @param {import("./steps.mjs").StepContext} context */
async function build({ run, environment }) {
  const { code, tail } = await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-b"], {
    cwd: root,
    env: environment,
  });
  if (code !== 0) throw new SetupError("the packages do not compile", { fix: "mend the type errors above", tail });
}
