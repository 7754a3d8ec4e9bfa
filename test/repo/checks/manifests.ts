/** The form that every package of the workspace has. */
import type { Finding } from "./finding.ts";

/** The part of a package.json that is checked. */
export interface Manifest {
  readonly name?: string;
  readonly description?: string;
  readonly type?: string;
  readonly exports?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

const workspaceDependenciesMax = 4;
/** They compose the others, or judge what all of them do. */
const composers = new Set(["@muster/actors", "@muster/check", "@muster/cli", "@muster/sim", "@muster/testkit"]);

/** Checks the package.json of one package. */
export function checkManifest(file: string, manifest: Manifest): Finding[] {
  const dependencies = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
  // What its sources import; tests may need more to play a job.
  const ours = Object.keys(manifest.dependencies ?? {}).filter((name) => name.startsWith("@muster/"));
  const entryPoint = manifest.exports?.["."] ?? {};
  const faults = [
    !manifest.description && "has no description",
    manifest.type !== "module" && 'is not an ES module ("type": "module")',
    Object.keys(entryPoint)[0] !== "source" && 'exports["."] does not begin with the source condition',
    ours.length > workspaceDependenciesMax &&
      !composers.has(manifest.name ?? "") &&
      `depends on ${ours.length} packages of the workspace, at most 4`,
    ...dependencies.map(
      ([name, range]) => !/^(catalog:|workspace:\*$)/.test(range) && `pins ${name} itself: use catalog:`,
    ),
  ];
  return faults.filter((fault) => typeof fault === "string").map((message) => ({ file, line: 0, message }));
}
