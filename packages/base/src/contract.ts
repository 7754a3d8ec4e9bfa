/**
 * What a job's own modules are given and what they return: tasks, rewards and generate functions. This file imports nothing, so that its
 * declarations are whole wherever they lie: `muster types` prints them for editors and compilers.
 */

/** A stream of random numbers that depends on its key alone: the same numbers whoever asks, and again after a resume. */
export interface Random {
  /** Uniform in [0, 1), with 32 bits of resolution. */
  next(): number;
  /** Uniform whole number in [0, bound); `bound` is a whole number ≥ 1. */
  below(bound: number): number;
}

/** A call of a tool in an answer. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON, as a text. */
  readonly arguments: string;
}

/** One turn of a conversation. */
export interface ChatMessage {
  /** As the chat template of the tokenizer knows it, such as `system`, `user` and `assistant`. */
  readonly role: string;
  readonly content: string;
  /** Of an answer that calls tools. */
  readonly toolCalls?: readonly ToolCall[];
  /** Of a tool's result: the call whose result it is. */
  readonly toolCallId?: string;
}

/** A tool that a model may call, as chat completions describe it: `{type: "function", function: {name, description, parameters}}`. */
export type ChatTool = Readonly<Record<string, unknown>>;

/** A question and its right answer, as rewards and generate functions see it. */
export interface Prompt {
  /** Token ids that the model reads; at least 1, at most the longest prompt of the task. */
  readonly ids: Int32Array;
  /** The question as the model reads it. */
  readonly text: string;
  /** Empty where nobody says one. */
  readonly answer: string;
  /** The row of the file, or what the task's module returned, with all its columns; absent in built-in tasks. */
  readonly row?: Readonly<Record<string, unknown>>;
}

/** What a reward is asked to judge. */
export interface RewardInput {
  readonly prompt: Prompt;
  /** Token ids of the response, with the token that ended it. */
  readonly responseIds: Int32Array;
  /** The response as text; the end token is left out, but for the `$` of the built-in tasks. */
  readonly responseText: string;
  /** `stop`: it ended by itself; `length`: it was cut off at `sampling.max_new_tokens` tokens or where the context ends. */
  readonly finish: string;
  /** Of an agent's episode (`rollout.agent`): the conversation up to and with its last answer. */
  readonly messages?: readonly ChatMessage[];
}

/** What a reward says of a response besides its number. */
export interface Judgement {
  /** From −1e9 to 1e9: what is trained on. */
  readonly reward: number;
  /** What it is made of, for people: at most 16 numbers from −1e9 to 1e9 by names of at most 48 letters, digits and `_./-`. */
  readonly components?: Readonly<Record<string, number>>;
  /** Whatever is to be kept with the trajectory: an object of at most 2,048 bytes as JSON. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** A number alone, or with what it is made of. */
export type RewardAnswer = number | Judgement;

/**
 * Judges one response: what the module of `task.reward` exports as `reward` or as default.
 *
 * @param signal - Aborted when its time (`timing.reward`, 5 s unless the job says otherwise) or the trajectory is over.
 * @returns A number from −1e9 to 1e9, or a {@link Judgement}; anything else gives up this one trajectory. In mode `sync` it must depend on `input` alone.
 */
export type RewardFunction = (input: RewardInput, signal: AbortSignal) => RewardAnswer | Promise<RewardAnswer>;

/** A prompt as a task's module returns it. Further columns are kept for the reward, as `prompt.row`; they should be JSON. */
export interface TaskPrompt {
  /** The question: text, or a conversation for tokenizers with a chat template. */
  readonly prompt: string | readonly ChatMessage[];
  /** The right answer, where there is one. */
  readonly answer?: string | number | boolean;
  readonly [column: string]: unknown;
}

/** Which training prompt is asked for. The answer must depend on nothing else. */
export interface TrainPromptKey {
  /** `job.seed`. */
  readonly seed: number;
  /** Step of the job, from 1. */
  readonly step: number;
  /** Group within the step, from 0 to below the groups of that step. */
  readonly index: number;
  /** Prompts before this one since the beginning of the job, from 0: `(step - 1) * groups_per_step + index` while `batch.groups_per_step` is not changed. */
  readonly position: number;
  /** A stream of this key's own. */
  readonly random: Random;
  /** Aborted when the time for one prompt, 5 s, is over. */
  readonly signal: AbortSignal;
}

/** Which held-out prompt is asked for. The answer must depend on `index` alone. */
export interface EvalPromptKey {
  /** From 0 to below `evaluation.prompts`. */
  readonly index: number;
  /** A stream of this index's own, the same under every `job.seed`. */
  readonly random: Random;
  /** Aborted when the time for one prompt, 5 s, is over. */
  readonly signal: AbortSignal;
}

/** The tokenizer of a task, as its module sees it. */
export interface TaskTokenizer {
  /** Number of token ids. */
  readonly vocab: number;
  /** Tokens of a text as it stands; text that spells a special token is that token. @throws for what has no tokens */
  encode(text: string): Int32Array;
  /** The text of tokens, without special tokens. */
  decode(ids: Int32Array): string;
}

/**
 * A task of one's own: what the module that `task.name` is the path of exports as `task` or as default. It has either `vocabulary` or `tokenizer`. All
 * samplers load it, so its file and what it reads must be on every host that has one, at the same path.
 */
export interface TaskModule {
  /** One character for each token id, 2 to 4,096 different ones; the first ends a response and occurs nowhere else. */
  readonly vocabulary?: string;
  /** Folder of a Hugging Face tokenizer (`tokenizer.json` and what lies beside it); a relative path starts at the module's file. */
  readonly tokenizer?: string;
  /** Longest prompt, in tokens, 1 to 1,048,576. A longer one is a fault of its group. */
  readonly maxPromptTokens: number;
  /** A training prompt: the same for the same key, whoever asks and however often. It has 5 s. */
  trainPrompt(key: TrainPromptKey): TaskPrompt | Promise<TaskPrompt>;
  /** A held-out prompt; needed with `evaluation.prompts` over 0. Should never be one of training. It has 5 s. */
  evalPrompt?(key: EvalPromptKey): TaskPrompt | Promise<TaskPrompt>;
  /** Token ids of a prompt, where they are not simply those of its text: whole numbers from 0 to below `tokenizer.vocab`. */
  encode?(prompt: TaskPrompt, tokenizer: TaskTokenizer): ArrayLike<number>;
  /** Judges a response, unless `task.reward` names another reward. */
  reward?(input: RewardInput, signal: AbortSignal): RewardAnswer | Promise<RewardAnswer>;
}

/** What an engine is. Replicas of one mesh must agree on `build`, otherwise their bits differ. */
export interface EngineInfo {
  /** Family, e.g. `embedded`. */
  readonly kind: string;
  /** Exact build: two engines of one build compute the same bits. */
  readonly build: string;
  readonly modelId: string;
  /** Number of token ids. */
  readonly vocab: number;
  /** Longest sequence in tokens, prompt and response together. */
  readonly maxContext: number;
  /** Processes or devices inside this engine. */
  readonly ranks: number;
  /** `sampled-dist`: log-probs of the distribution a token was drawn from; `raw`: before temperature and truncation. */
  readonly logprobs: "sampled-dist" | "raw";
  /** It goes on with responses that were begun, with the bits of one that was never interrupted. */
  readonly resumes?: true;
  /** Digest of a short computation on this machine, up to 128 characters: replicas of a role with other ones do not compute equal bits. Absent: it has none. */
  readonly fingerprint?: string | undefined;
}

/** How to draw tokens. */
export interface SamplingOptions {
  /** Divides the logits, ≥ 0; 0 takes the likeliest token. */
  readonly temperature: number;
  /** Longest response in tokens, ≥ 1. It also ends where the context ends. */
  readonly maxNewTokens: number;
  /** Tokens that end a response; the token itself belongs to the response. */
  readonly stopTokenIds: readonly number[];
  /** Draws from the likeliest tokens that have this share together, in (0, 1]. */
  readonly topP?: number;
  /** Draws from this many of the likeliest tokens, ≥ 1. */
  readonly topK?: number;
}

/** One response of an engine. */
export interface Generated {
  readonly responseIds: Int32Array;
  /** Natural logarithm of the probability of each response token; response length. */
  readonly logprobs: Float32Array;
  /** `abort` is a normal outcome: the tokens so far are returned. */
  readonly finish: "stop" | "length" | "abort";
  readonly versionAtStart: number;
  /** Differs from `versionAtStart` only when weights were updated during a `keep` pause. */
  readonly versionAtEnd: number;
}

/** One turn that a module asks the engine for. */
export interface TurnRequest {
  /** Everything the engine reads before it draws: prompt, earlier turns, what the environment said. */
  readonly promptIds: ArrayLike<number>;
  /** Over those of the job. */
  readonly sampling?: Partial<SamplingOptions>;
  /** Names the random numbers of this turn, a whole number ≥ 0; they also depend on the sample. Default: the number of turns before it. */
  readonly seed?: number;
  /**
   * Asked now and then with what is drawn so far, where the engine can say it: true ends the drawing, and what came until then is the answer, with the finish
   * `abort`. How much more that is depends on time: cut it where it must not.
   */
  readonly isOver?: (soFar: Generated) => boolean;
}

/** The engine as a module sees it. It is of no use once the sample is settled. */
export interface EngineHandle {
  info(): EngineInfo;
  /**
   * Draws one response. Turn 0 of a sample draws from the very stream that the engine would use by itself, so a module that asks
   * for one turn changes nothing.
   */
  generate(turn: TurnRequest): Promise<Generated>;
}

/** What a generate function knows of the task. */
export interface GenerateTask extends TaskTokenizer {
  /** Its name; of a task of one's own, the path of the module. */
  readonly name: string;
  /** Tokens that end a response; at least one. */
  readonly stopTokenIds: readonly number[];
  /** Context length that it needs: prompt and response together, in tokens. */
  readonly maxTokens: number;
}

/** What a generate function is called with, once for each sample of a group. */
export interface GenerateContext {
  readonly prompt: Prompt;
  /** `<step>.<index>`. */
  readonly groupId: string;
  /** Place in the group, from 0. */
  readonly sample: number;
  /** Responses that are expected: `rollout.fan_out`, 1 to 64. */
  readonly fanOut: number;
  readonly sampling: SamplingOptions;
  readonly task: GenerateTask;
  readonly engine: EngineHandle;
  /** A stream of its own: the same for this sample whoever generates it. */
  readonly random: Random;
  /**
   * Aborted when the sample is settled: by its answer, its failure, its deadline (`timing.generate`, 20 s unless the job says otherwise) or the end of
   * the whole call.
   */
  readonly signal: AbortSignal;
}

/** One response as a module returns it. */
export interface ModuleResponse {
  /** At least one; with the prompt at most the context of the model. */
  readonly responseIds: ArrayLike<number>;
  /** Of each response token, finite and at most 0; of tokens that the model did not draw, 0. */
  readonly logprobs: ArrayLike<number>;
  /** 0 for tokens that the model did not draw. Default: 1 everywhere. */
  readonly lossMask?: ArrayLike<number>;
  /** Default `stop`. */
  readonly finish?: "stop" | "length";
  /** What the model read before the response, where that is not the prompt of the sample. */
  readonly promptIds?: ArrayLike<number>;
  /** Version of the weights that drew each response token. Default: the oldest that the sample drew from, for all. */
  readonly versions?: ArrayLike<number>;
  /** Its reward, where that is known already; the reward of the job is not asked then. */
  readonly reward?: RewardAnswer;
  /** For the reward of the job: the conversation. */
  readonly messages?: readonly ChatMessage[];
}

/**
 * Generates one sample: what the module of `rollout.generate` exports as `generate` or as default.
 *
 * @returns One response; with a declared fan-out over 1, a list of exactly that many.
 */
export type GenerateModule = (context: GenerateContext) => Promise<ModuleResponse | readonly ModuleResponse[]>;
