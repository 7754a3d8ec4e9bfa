/** The native data plane: a Node-API addon in `native/build/Release`, built by cmake-js or built before by somebody. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../paths.mjs";
import { nativeFingerprint, prebuiltVariable, takePrebuilt } from "./prebuilt.mjs";
import { SetupError } from "./setup-error.mjs";
import { which } from "./which.mjs";

const native = join(root, "native");
const output = join(native, "build/Release");

/** @type {import("./steps.mjs").Step} */
export const nativeBuildStep = {
  name: "nativeBuild",
  label: "native data plane (C++)",
  fingerprint: nativeFingerprint,
  isPresent: () => existsSync(output) && readdirSync(output).some((name) => name.endsWith(".node")),
  run: build,
};

/** @param {import("./steps.mjs").StepContext} context */
async function build({ run, environment }) {
  const prebuilt = environment[prebuiltVariable];
  if (prebuilt) return await takePrebuilt(prebuilt, output);
  checkTools(environment);
  const script = join(native, "node_modules/cmake-js/bin/cmake-js");
  const strict = `--CDMUSTER_WERROR=${environment.MUSTER_WERROR ?? "OFF"}`;
  const { code, tail } = await run(process.execPath, [script, "compile", strict], { cwd: native, env: environment });
  if (code !== 0) {
    throw new SetupError("the native data plane did not compile", {
      fix: "see what the compiler said above; a compiler for C++20 is needed (g++ 11, clang 14 or newer)",
      tail,
    });
  }
}

/** Names every missing build tool in one error. @param {NodeJS.ProcessEnv} environment */
export function checkTools(environment) {
  const tools = [
    { what: "a C++ compiler", commands: [environment.CXX ?? "c++", "c++", "g++", "clang++"], debian: "g++" },
    { what: "cmake", commands: ["cmake"], debian: "cmake" },
    { what: "make", commands: ["make", "ninja"], debian: "make" },
  ];
  const missing = tools.filter(({ commands }) => !commands.some((command) => which(command, environment)));
  if (missing.length === 0) return;
  const packages = missing.map(({ debian }) => debian).join(" ");
  throw new SetupError(`the native data plane needs ${missing.map(({ what }) => what).join(", ")}, not found on PATH`, {
    fix: `on Debian or Ubuntu: sudo apt-get install -y ${packages}; elsewhere install ${packages} with the system's package manager; then run it again. Or set ${prebuiltVariable} to an addon that \`npm run prebuild:native\` packed on another machine`,
  });
}
