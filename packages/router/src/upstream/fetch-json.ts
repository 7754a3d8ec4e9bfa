/** Small questions to an engine: a status and, when it is JSON, what it says. */
import type { Clock } from "@muster/base";
import type { Agent } from "undici";
import { tableOf } from "../core/answer-facts.ts";
import { send } from "./send.ts";

/** What an engine answered, or why it did not. */
export type Asked =
  | { readonly status: number; readonly table: Readonly<Record<string, unknown>> | null }
  | { readonly status: null; readonly refused: boolean; readonly detail: string };

/** What is asked, and for how long. */
export interface Question {
  readonly origin: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

const bytesMax = 1024 ** 2;

/** Asks with GET. Never throws. */
export function ask(agent: Agent, clock: Clock, question: Question): Promise<Asked> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let status = 0;
    let bytes = 0;
    const { timeoutMs } = question;
    const sent = send(
      agent,
      clock,
      { ...question, method: "GET", body: null, stallMs: timeoutMs },
      {
        head(code) {
          status = code;
        },
        piece(chunk) {
          bytes += chunk.length;
          if (bytes > bytesMax) sent.fail("reset", `its answer to ${question.path} is longer than ${bytesMax} bytes`);
          else chunks.push(chunk);
        },
        end: () => resolve({ status, table: tableOf(Buffer.concat(chunks).toString("utf8")) }),
        failed: (kind, detail) => resolve({ status: null, refused: kind === "refused", detail }),
      },
    );
  });
}
