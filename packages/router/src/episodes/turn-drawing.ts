/** One turn of a trained episode: what a chat request asks of the sample's engine, and the answer. */
import type { Generated, SamplingOptions } from "@muster/base";
import { Refused } from "../core/reply.ts";
import type { Session } from "../core/session.ts";
import type { Grow } from "../routes/growing-answer.ts";
import { GrowingText } from "../sampler/growing-text.ts";
import { isCut, mayBeCut, saidOf } from "../sampler/said.ts";
import { wholeAnswer } from "../sampler/sampler-answers.ts";
import type { SamplerTokenizer } from "../sampler/sampler-engine.ts";
import { wantedOf } from "../sampler/sampler-request.ts";
import { continuedPrompt } from "./continued-prompt.ts";

type Table = Readonly<Record<string, unknown>>;

/** A turn as an engine is asked for it. */
export interface EpisodeTurn {
  readonly promptIds: Int32Array;
  readonly sampling: Partial<SamplingOptions>;
  readonly seed: number;
  /** Says when the rest is drawn for nobody; absent where that is never so. */
  readonly isOver?: (soFar: Generated) => boolean;
}

/** Whose turns are drawn, and how. */
export interface Drawing {
  readonly tokenizer: SamplerTokenizer;
  /** Of the job: a trainer can only learn from what was drawn with its own temperature. */
  readonly sampling: SamplingOptions;
  readonly model: string;
  /** Longest conversation in tokens, with the answer. */
  readonly maxContext: number;
  readonly draw: (turn: EpisodeTurn) => Promise<Generated>;
}

/** Fields of a request that the job decides. */
const ofJob = ["temperature", "top_p", "top_k"];

/** Draws a turn. `body` is what a session sends to an engine; `grow` hears of the text while it is drawn. @throws Refused with 400; what `draw` throws */
export async function drawTurn(session: Session, body: Table, drawing: Drawing, grow?: Grow): Promise<Table> {
  const { tokenizer, sampling, model, maxContext, draw } = drawing;
  const messages = body.messages as readonly Table[];
  const asked = Object.fromEntries(Object.entries(body).filter(([field]) => !ofJob.includes(field)));
  const named = body.max_completion_tokens ?? body.max_tokens ?? null;
  const wanted = wantedOf(
    "/v1/chat/completions",
    { ...asked, ...(named === null ? { max_tokens: sampling.maxNewTokens } : {}) },
    {
      ...tokenizer,
      toolParser: tokenizer.encodeChat ? (tokenizer.toolParser ?? null) : null,
      encodeChat: (_, tools = []) => continuedPrompt(session, messages, { tokenizer, tools }),
    },
    0,
  );
  const { promptIds, seed } = wanted;
  const room = maxContext - promptIds.length;
  if (room < 1)
    throw new Refused({
      ...{ status: 400, code: "invalid_request" },
      message: `messages: the conversation has ${promptIds.length} tokens, and the model reads ${maxContext} with the answer`,
    });
  const maxNewTokens = Math.min(wanted.sampling.maxNewTokens, sampling.maxNewTokens, room);
  const { stopTokenIds } = wanted.sampling;
  const createdS = Math.floor(Date.now() / 1000);
  const shown = {
    route: "/v1/chat/completions",
    id: `chatcmpl-${session.turns.length}`,
    wanted,
    tokenizer,
    model,
    createdS,
  } as const;
  const tools = { wanted, tokenizer, growing: new GrowingText(tokenizer) };
  const head = { id: shown.id, model, created: createdS, usage: { prompt_tokens: promptIds.length } };
  let said = 0;
  const isOver = (soFar: Generated): boolean => {
    const { text } = saidOf(tools, soFar, false);
    // A turn that was interrupted may be drawn from its beginning again.
    if (text.length > said) grow?.(head, text.slice(said));
    said = Math.max(said, text.length);
    return isCut(tools, soFar, false);
  };
  const turn = { promptIds, seed, sampling: { maxNewTokens, stopTokenIds } };
  const generated = await draw(grow || mayBeCut(wanted) ? { ...turn, isOver } : turn);
  return wholeAnswer(shown, [generated]) as Table;
}
