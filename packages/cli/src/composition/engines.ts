/** The engines that this program knows. Each is loaded when a job or a replica needs it, never before. */
import { isAbsolute } from "node:path";
import { type EngineAdapter, EngineRegistry, loadAdapter } from "@muster/engine";

const served = async (kind: "openai" | "sglang" | "vllm"): Promise<EngineAdapter> =>
  (await import("@muster/engine/served")).servedAdapterOf(kind, process.env);

const builtIn: Readonly<Record<string, () => Promise<EngineAdapter>>> = {
  embedded: async () => (await import("@muster/engine/embedded")).embeddedAdapter,
  openai: () => served("openai"),
  sglang: () => served("sglang"),
  vllm: () => served("vllm"),
  worker: async () => {
    const { workerMemory } = await import("./worker-memory.ts");
    return (await import("@muster/engine/worker")).workerAdapterOf(process.env, workerMemory);
  },
};

/**
 * Loads engines by name or absolute path. A name that is not known is left out: the registry names the known ones where it is asked for it.
 *
 * @param trainer - The engine of the job's trainers, loaded where one of these takes their model.
 * @throws what a module throws that can not be loaded
 */
export async function openEngines(names: readonly string[], trainer?: string): Promise<EngineRegistry> {
  const adapters = new Map<string, EngineAdapter>();
  const load = async (name: string): Promise<void> => {
    const adapter = isAbsolute(name) ? await loadAdapter(name) : await builtIn[name]?.();
    if (adapter) adapters.set(name, adapter);
  };
  for (const name of new Set(names)) await load(name);
  const isAsked = [...adapters.values()].some(({ takesTrainersModel }) => takesTrainersModel);
  if (isAsked && trainer !== undefined && !adapters.has(trainer)) await load(trainer);
  return new EngineRegistry(adapters, Object.keys(builtIn));
}
