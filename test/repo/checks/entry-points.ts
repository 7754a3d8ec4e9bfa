/** Whether a package's main entry point exports only what somebody needs at work. */
import type { Finding } from "./finding.ts";

/** A file of the repository with its text. */
export interface TextFile {
  readonly file: string;
  readonly text: string;
}

/** These packages serve development only: tests may enter them in front. */
const development = new Set(["sim", "testkit"]);
const isDevelopment = (file: string): boolean =>
  /^(?:test|bench|scripts)\/|^packages\/(?:sim|testkit)\/|^packages\/[^/]+\/test\//.test(file);

/** Names in main entry points (`packages/<name>/src/index.ts`) that tests, the simulator or benches import, and nobody else. */
export function checkEntryPoints(files: readonly TextFile[]): Finding[] {
  const atWork = new Set<string>();
  const inDevelopment = new Set<string>();
  for (const { file, text } of files)
    for (const name of importsOf(text)) (isDevelopment(file) ? inDevelopment : atWork).add(name);
  return files.flatMap(({ file, text }) => {
    const packageName = /^packages\/([^/]+)\/src\/index\.ts$/.exec(file)?.[1];
    if (packageName === undefined || development.has(packageName)) return [];
    return valuesOf(text)
      .filter((name) => inDevelopment.has(`${packageName} ${name}`) && !atWork.has(`${packageName} ${name}`))
      .map((name) => ({ file, line: 0, message: `${name} is imported by tests only: export it from internal.ts` }));
  });
}

/** `package name` for each name that a text imports from a main entry point. */
function importsOf(text: string): string[] {
  const named = /(?:import|export)\s+(?:type\s+)?\{([^}]*)\}\s*from\s*["']@muster\/([a-z]+)["']/g;
  const awaited = /\{([^}]*)\}\s*=\s*await import\(["']@muster\/([a-z]+)["']\)/g;
  const typed = /()import\(["']@muster\/([a-z]+)["']\)\.(\w+)/g;
  return [...text.matchAll(named), ...text.matchAll(awaited), ...text.matchAll(typed)].flatMap(
    ([, list = "", packageName, one]) =>
      [...list.split(","), one ?? ""]
        .map((entry) => entry.trim().replace(/^type\s+/, ""))
        .map((entry) => `${packageName} ${entry.split(/\s+as\s+|\s*:/)[0]}`),
  );
}

/** The values that an entry point exports; types stay with the interfaces that name them. */
function valuesOf(text: string): string[] {
  return [...text.matchAll(/^export \{([^}]*)\}/gm)].flatMap(([, list = ""]) =>
    list
      .split(",")
      .map((entry) => entry.trim())
      .filter((entry) => entry !== "" && !entry.startsWith("type "))
      .map((entry) => entry.split(/\s+as\s+/).at(-1) ?? entry),
  );
}
