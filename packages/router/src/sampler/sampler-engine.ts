/** The part of a rollout engine and of a job's tokenizer that serves requests. The engines and tasks of Muster have it. */
import type { ChatMessage, ChatTool, EngineInfo, Generated, SamplingOptions, ToolParserName } from "@muster/base";

/** One prompt, as an engine takes it. */
export interface SamplerRequest {
  readonly requestId: string;
  readonly promptIds: Int32Array;
  readonly n: number;
  readonly sampling: SamplingOptions;
  readonly seed: number;
}

/** What draws. */
export interface SamplerEngine {
  info(): EngineInfo;
  /** Version of the weights in use, `null` before the first. */
  weightVersion(): number | null;
  generate(requests: readonly SamplerRequest[], signal: AbortSignal): Promise<readonly (readonly Generated[])[]>;
  /** What is drawn so far of a request in flight. */
  drawn?(requestId: string): readonly Generated[] | null;
  abort(requestIds: readonly string[]): Promise<void>;
  health(options: {
    readonly deep: boolean;
    readonly signal: AbortSignal;
  }): Promise<{ readonly ok: boolean; readonly detail?: string }>;
}

/** What makes tokens of text. */
export interface SamplerTokenizer {
  readonly stopTokenIds: readonly number[];
  encode(text: string): Int32Array;
  decode(ids: Int32Array): string;
  /** Tokens of a conversation, where the tokenizer has a chat template. */
  encodeChat?(messages: readonly ChatMessage[], tools?: readonly ChatTool[]): Int32Array;
  /** The form in which the model writes calls of tools, where its template teaches one that is known. */
  readonly toolParser?: ToolParserName | null;
}
