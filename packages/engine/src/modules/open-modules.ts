/** Rewards and generate functions of a job's own modules, each in a process of its own with limits of time and memory. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Logger, ModuleResponse, RewardAnswer, TurnRequest } from "@muster/base";
import type { JobConfig } from "@muster/protocol";
import { type GenerateFunction, nameOfGenerate, type SampleContext } from "../collect/generate-function.ts";
import type { Generated, Reward, RewardInput } from "../engine.ts";
import { errors } from "../errors.ts";
import { inheritedOf, limited, type WorkerCommand } from "../programs/command.ts";
import { faultOf } from "../worker/messages.ts";
import type { ModuleLife } from "./life.ts";
import { ModulePool } from "./pool.ts";
import { type ModuleUse, packed, wiredGenerated } from "./wire.ts";
import { type FromModule, judgementAnswer, responsesAnswer, type WiredTurn } from "./wire-schema.ts";
import { wiredError } from "./wired-error.ts";

/** From the start of a process until its module is loaded. */
const startMs = 20_000;

/** Of jobs that were begun before it could be chosen, in bytes. */
const memoryDefault = 2 ** 30;

/** What its processes may write to beyond their limit of memory before the kernel refuses more: until then it is measured. */
const spareBytes = 256 * 2 ** 20;

/** Turns of one sample that wait for the engine at the same time, at most. */
const turnsMax = 256;

/** What modules are opened with. */
export interface ModuleOptions {
  readonly config: Pick<JobConfig, "task" | "taskModule" | "prompts" | "timing" | "limits">;
  /** Environment that their processes inherit, but for what is meant for Muster itself. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logger: Logger;
}

/**
 * Opens the reward of a module.
 *
 * @throws MUSTER_ERR_MODULE_UNLOADABLE, MUSTER_ERR_MODULE_EXPORT by their codes; MUSTER_ERR_MODULE_ENDED
 */
export async function openModuleReward(path: string, options: ModuleOptions): Promise<Reward> {
  const { rewardMs } = options.config.timing;
  // Who judges without giving way has the same time as who does.
  const pool = await poolOf(path, "reward", { ...options, timeoutMs: rewardMs, blockedMs: rewardMs });
  const what = `the reward ${path}`;
  return {
    name: path,
    isBounded: true,
    score: async (input, stop) => {
      // All responses of a step share one signal.
      const signal = AbortSignal.any([stop]);
      const asked = { what, input: wiredInput(input), signal };
      const { data, error } = judgementAnswer.safeParse(await pool.use(() => pool.call(asked), signal));
      if (error) throw errors.RewardAnswer({ name: path, answer: `something that is wrong in ${faultOf(error)}` });
      return (data.components || data.metadata ? data : data.reward) as RewardAnswer;
    },
    onStarting: (run) => pool.onHeldUp(run),
    close: () => pool.close(),
  };
}

/** Opens the generate function of a module. @throws as {@link openModuleReward} */
export async function openModuleGenerate(path: string, options: ModuleOptions): Promise<GenerateFunction> {
  const { generateMs } = options.config.timing;
  const { task, taskModule, prompts } = options.config;
  const texts = { task, taskModule, prompts };
  // An endless loop is tried twice: together that must not take longer than a sample may.
  const times = { timeoutMs: generateMs, blockedMs: generateMs / 2 };
  const pool = await poolOf(path, "generate", { ...options, ...times, texts });
  return Object.assign((context: SampleContext) => generateIn(pool, path, context), {
    file: path,
    isBounded: true as const,
    places: pool,
    onStarting: (run: () => void) => pool.onHeldUp(run),
    close: () => pool.close(),
  });
}

async function poolOf(
  path: string,
  use: ModuleUse,
  options: ModuleOptions & { readonly timeoutMs: number; readonly blockedMs: number; readonly texts?: object },
): Promise<ModulePool> {
  const { config, env, logger, timeoutMs, blockedMs, texts = null } = options;
  const { moduleBytes = memoryDefault } = config.limits;
  return await ModulePool.open({
    ...{ path, command: commandOf(moduleBytes, env), memoryMax: moduleBytes, startMs, blockedMs, timeoutMs, logger },
    open: { type: "open", use, path, texts },
  });
}

function commandOf(memoryMax: number, env: ModuleOptions["env"]): WorkerCommand {
  const heap = memoryMax > 0 ? [`--max-old-space-size=${Math.ceil(memoryMax / 2 ** 20)}`] : [];
  const words = [process.execPath, ...heap, programFile()];
  return { words: memoryMax > 0 ? limited(words, memoryMax + spareBytes) : words, env: inheritedOf(env) };
}

/** The compiled program: beside this file when compiled, in `dist` when this file runs from source. */
function programFile(): string {
  const fromSource = import.meta.url.endsWith(".ts");
  const file = fileURLToPath(new URL(fromSource ? "../../dist/modules/program.js" : "./program.js", import.meta.url));
  if (!existsSync(file)) throw errors.ModuleProgram({ file });
  return file;
}

function wiredInput({ prompt, responseIds, ...rest }: RewardInput): Readonly<Record<string, unknown>> {
  return { ...rest, prompt: { ...prompt, ids: packed("i32", prompt.ids) }, responseIds: packed("i32", responseIds) };
}

/** One try of one sample. */
async function generateIn(
  pool: ModulePool,
  path: string,
  { engine, task, prompt, signal, random: _, ...rest }: SampleContext,
): Promise<ModuleResponse | readonly ModuleResponse[]> {
  const { name, vocab, stopTokenIds, maxTokens } = task;
  const turns = new Turns((turn) => engine.generate(turn));
  const input = {
    ...{ ...rest, info: engine.info(), task: { name, vocab, stopTokenIds, maxTokens } },
    prompt: { ...prompt, ids: packed("i32", prompt.ids) },
  };
  const answer = await pool.call({
    what: `sample ${rest.sample} of group ${rest.groupId}`,
    ...{ input, signal },
    hear: (message, life) => turns.hear(message, life),
    errorOfTurn: (turn) => turns.errors.get(turn),
  });
  const { data, error } = responsesAnswer.safeParse(answer);
  if (!error) return data as ModuleResponse | readonly ModuleResponse[];
  throw errors.GenerateField({
    ...{ from: nameOfGenerate(path), field: "a response", value: "something else" },
    rule: `as its process makes it, and is wrong in ${faultOf(error)}`,
  });
}

/** The turns of one sample: what its module asks the engine, and what it hears of that. */
class Turns {
  readonly errors = new Map<number, unknown>();
  readonly #generate: (turn: TurnRequest) => Promise<Generated>;
  /** Turns that wait for the engine. */
  #open = 0;
  /** Turns of which the module has heard enough. */
  readonly #over = new Set<number>();

  constructor(generate: (turn: TurnRequest) => Promise<Generated>) {
    this.#generate = generate;
  }

  hear(message: Extract<FromModule, { readonly type: "draw" | "over" }>, life: ModuleLife): void {
    if (message.type === "over") this.#over.add(message.turn);
    else void this.#draw(message, life);
  }

  async #draw({ id, turn, request }: Extract<FromModule, { readonly type: "draw" }>, life: ModuleLife): Promise<void> {
    this.#open += 1;
    try {
      if (this.#open > turnsMax) throw errors.GenerateTurns({ turnsMax });
      const generated = await this.#generate(this.#requestOf(request, { id, turn, life }));
      life.tell({ type: "drawn", id, turn, generated: wiredGenerated(generated) });
    } catch (error) {
      this.errors.set(turn, error);
      life.tell({ type: "undrawn", id, turn, error: wiredError(error) });
    } finally {
      this.#open -= 1;
    }
  }

  #requestOf(
    { promptIds, sampling, seed, mayEnd }: WiredTurn,
    { id, turn, life }: { readonly id: number; readonly turn: number; readonly life: ModuleLife },
  ): TurnRequest {
    let told = 0;
    const isOver = (soFar: Generated): boolean => {
      if (soFar.responseIds.length > told) {
        told = soFar.responseIds.length;
        life.tell({ type: "soFar", id, turn, generated: wiredGenerated(soFar) });
      }
      return this.#over.has(turn);
    };
    return {
      promptIds,
      ...(sampling ? { sampling } : {}),
      ...(seed === undefined ? {} : { seed }),
      ...(mayEnd ? { isOver } : {}),
    };
  }
}
