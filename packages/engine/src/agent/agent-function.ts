/** Samples by an agent: a program of the user's that is started for each sample and speaks to a base URL of its own (`rollout.agent`). */
import { type GenerateContext, type ModuleResponse, Places } from "@muster/base";
import type { GenerateFunction } from "../collect/generate-function.ts";
import { errors } from "../errors.ts";
import { inheritedOf } from "../programs/command.ts";
import { endMarked, ProcessMark } from "../programs/process-mark.ts";
import { type AgentOptions, agentCommandOf } from "./agent-command.ts";
import { AgentProcess } from "./agent-process.ts";
import type { EpisodePort } from "./episode-port.ts";
import { responsesOfEpisode } from "./episode-responses.ts";

type Env = Readonly<Record<string, string>>;
type Episode = Awaited<ReturnType<EpisodePort["begin"]>>;

/** Time that an agent has to end once it has ended its session. */
const endMs = 2_000;

/** Processes that outlived their agents are looked for together: a look reads every process of the host. */
const sweepMs = 1_000;

/** The generate function of a job with an agent. `parent` is the environment of this process. */
export function agentFunction(
  options: AgentOptions,
  port: EpisodePort,
  parent: Readonly<Record<string, string | undefined>>,
): GenerateFunction {
  const runner = new Runner(options, port, inheritedOf(parent));
  return Object.assign((context: GenerateContext) => runner.sample(context), {
    file: options.command,
    places: new Places(options.atOnce),
    close: () => runner.close(),
  });
}

class Runner {
  readonly #options: AgentOptions;
  readonly #port: EpisodePort;
  readonly #words: readonly string[];
  /** What stands in the environment besides the addresses: that of this process, then the job's. */
  readonly #env: readonly [inherited: Env, added: Env];
  readonly #marks = new Set<ProcessMark>();
  #sweep: NodeJS.Timeout | null = null;

  constructor(options: AgentOptions, port: EpisodePort, inherited: Env) {
    const { words, env } = agentCommandOf(options);
    this.#options = options;
    this.#port = port;
    this.#words = words;
    this.#env = [inherited, env];
  }

  async sample(context: GenerateContext): Promise<readonly ModuleResponse[] | ModuleResponse> {
    const { groupId, sample, engine, sampling, task, fanOut, signal } = context;
    const fault: { error?: unknown } = {};
    let agent: AgentProcess | null = null;
    const { modelId, maxContext } = engine.info();
    const episode = await this.#port.begin({
      ...{ name: `${groupId}-${sample}`.replaceAll(".", "-"), tokenizer: task, sampling, model: modelId, maxContext },
      draw: (turn) => engine.generate(turn),
      failed: (error) => {
        fault.error ??= error;
        agent?.kill("its engine failed");
      },
    });
    const mark = new ProcessMark();
    const stop = (): void => agent?.kill("its sample is over");
    try {
      signal.throwIfAborted();
      agent = this.#start(context, episode, mark);
      signal.addEventListener("abort", stop, { once: true });
      await untilEnded(agent, episode);
    } catch (error) {
      const refusal = episode.refusal();
      await episode.finish();
      throw fault.error ?? withRefusal(error, refusal);
    } finally {
      signal.removeEventListener("abort", stop);
      agent?.kill("its sample is over");
      this.#sweepLater(mark);
    }
    const outcome = await episode.finish();
    if (fault.error !== undefined) throw fault.error;
    return responsesOfEpisode(outcome, { reward: this.#options.reward, fanOut });
  }

  async close(): Promise<void> {
    if (this.#sweep) clearTimeout(this.#sweep);
    this.#endMarked();
    await this.#port.close();
  }

  #start({ prompt, groupId, sample }: GenerateContext, { url, key }: Episode, mark: ProcessMark): AgentProcess {
    const { directory, memoryBytes, outputBytes } = this.#options;
    const [inherited, added] = this.#env;
    const facts = { base_url: `${url}/v1`, session_url: url, api_key: key, prompt: prompt.text };
    const fill = (text: string): string =>
      text.replace(/\{(base_url|session_url|api_key|prompt)\}/g, (_, name: keyof typeof facts) => facts[name]);
    const { text, answer, row } = prompt;
    return new AgentProcess({
      words: this.#words.map(fill),
      env: { ...inherited, ...clientEnvironment(url, key, inherited), ...added },
      input: `${JSON.stringify({ prompt: text, answer, ...(row ? { row } : {}), group: groupId, sample })}\n`,
      ...{ directory, mark, memoryMax: memoryBytes, outputMax: outputBytes },
    });
  }

  #sweepLater(mark: ProcessMark): void {
    this.#marks.add(mark);
    this.#sweep ??= setTimeout(() => this.#endMarked(), sweepMs).unref();
  }

  #endMarked(): void {
    this.#sweep = null;
    const marks = [...this.#marks];
    this.#marks.clear();
    if (marks.length > 0) endMarked(...marks);
  }
}

/** Where clients of the OpenAI and Anthropic APIs look for their server, which is no one that a proxy leads to. */
function clientEnvironment(url: string, key: string, inherited: Env): Env {
  const { NO_PROXY: upper, no_proxy: lower = upper } = inherited;
  const direct = `127.0.0.1,localhost${lower ? `,${lower}` : ""}`;
  return {
    ...{ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: key },
    ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key, MUSTER_SESSION_URL: url },
    ...{ NO_PROXY: direct, no_proxy: direct },
  };
}

/** Until the agent has ended, or its session has and it was given the time to. */
async function untilEnded(agent: AgentProcess, { ended }: Episode): Promise<void> {
  await Promise.race([agent.ended, ended]);
  let late: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    late = setTimeout(resolve, endMs);
  });
  // One that ended its session has said all that counts; how it ends itself does not.
  const settled = await Promise.race([
    agent.ended.then(
      () => true,
      (error: unknown) => error,
    ),
    patience,
  ]);
  clearTimeout(late);
  if (settled instanceof Error && !(await isSettled(ended))) throw settled;
}

function isSettled(promise: Promise<void>): Promise<boolean> {
  return Promise.race([promise.then(() => true), new Promise<boolean>((resolve) => setImmediate(resolve, false))]);
}

/** An agent that gave up over a refused request says less of it than its endpoint. */
function withRefusal(error: unknown, refusal: string | null): unknown {
  if (refusal === null || !(error instanceof Error)) return error;
  return errors.AgentRefused({ reason: error.message, refusal: refusal.slice(0, 500) }, error);
}
