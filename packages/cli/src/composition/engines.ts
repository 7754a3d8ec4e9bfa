/** The engines that this program knows. Each is loaded when a job or a replica needs it, never before. */
import { isAbsolute } from "node:path";
import { type EngineAdapter, EngineRegistry, loadAdapter, needsOfTask, taskOf } from "@muster/engine";
import { enginesNamedIn, type LoadedJob, type LoadJobOptions, loadJob } from "@muster/runtime";

const builtIn: Readonly<Record<string, () => Promise<EngineAdapter>>> = {
  embedded: async () => (await import("@muster/engine/embedded")).embeddedAdapter,
};

/**
 * Loads engines by name or absolute path. A name that is not known is left out: the registry names the known ones where it is asked for it.
 *
 * @throws what a module throws that can not be loaded
 */
export async function openEngines(names: readonly string[]): Promise<EngineRegistry> {
  const adapters: [string, EngineAdapter][] = [];
  for (const name of new Set(names)) {
    const adapter = isAbsolute(name) ? await loadAdapter(name) : await builtIn[name]?.();
    if (adapter) adapters.push([name, adapter]);
  }
  return new EngineRegistry(adapters, Object.keys(builtIn));
}

/** Loads a job with the engines that it names. @throws as `loadJob` and {@link openEngines} */
export async function loadJobFile(options: Omit<LoadJobOptions, "describeTask" | "engines">): Promise<LoadedJob> {
  const engines = await openEngines(enginesNamedIn(options));
  return loadJob({ ...options, engines, describeTask: (name) => needsOfTask(taskOf(name)) });
}
