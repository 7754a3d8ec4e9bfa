/** Passes a stream of events on to a client as it comes, and notices what it says of errors and weights. */
import type { ServerResponse } from "node:http";
import type { Clock } from "@muster/base";
import { type AnswerFacts, factsOf, tableOf } from "../core/answer-facts.ts";
import { type Fence, isFenced, satisfies } from "../core/fence.ts";
import { dataOf, doneData, EventSplitter, eventOf } from "../core/sse.ts";
import type { TokenStream } from "../core/token-stream.ts";

/** Why a stream can not go on from this engine. */
export interface RelayFault {
  readonly kind: "error_body" | "stale";
  readonly detail: string;
}

/** What a relay works with. */
export interface RelayOptions {
  readonly client: ServerResponse;
  readonly clock: Clock;
  readonly fence: Fence;
  readonly newest: () => number | null;
  readonly probed: string | null;
  /** Set where another engine could go on. */
  readonly tokens: TokenStream | null;
  /** Writes status and headers; called once, before the first event. */
  readonly begin: (facts: AnswerFacts) => void;
  readonly pause: () => void;
  readonly resume: () => void;
  /** A client that takes nothing for so long is cut off. */
  readonly clientStallMs: number;
}

const eventBytesMax = 16 * 1024 ** 2;

/** One engine's part of a stream. */
export class Relay {
  readonly #options: RelayOptions;
  readonly #splitter = new EventSplitter();
  #version: string | null = null;
  #hasData = false;
  #isWaiting = false;

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  /** The last version that the stream named. */
  get version(): string | null {
    return this.#version;
  }

  /** The first event with data has come. */
  get hasData(): boolean {
    return this.#hasData;
  }

  /** Takes bytes of the engine. @returns A fault that ends this engine's part; nothing of the faulty event has left. */
  take(chunk: Buffer): RelayFault | null {
    return this.#pass(this.#splitter.push(chunk));
  }

  /** The engine has ended its stream: what waits for its empty line is the last event. @returns As {@link take} */
  finish(): RelayFault | null {
    const last = this.#splitter.rest();
    return last === null || dataOf(last) === null ? null : this.#pass([Buffer.concat([last, Buffer.from("\n\n")])]);
  }

  #pass(events: readonly Buffer[]): RelayFault | null {
    const out: (Buffer | string)[] = [];
    for (const event of events) {
      const fault = this.#look(event, out);
      if (fault) {
        this.#write(out);
        return fault;
      }
    }
    this.#write(out);
    if (this.#splitter.waiting > eventBytesMax)
      return { kind: "error_body", detail: `an event is longer than ${eventBytesMax} bytes` };
    return null;
  }

  #look(event: Buffer, out: (Buffer | string)[]): RelayFault | null {
    const { tokens } = this.#options;
    const mustRead = tokens !== null || !this.#hasData || event.includes('"error"') || event.includes("weight_version");
    const data = mustRead ? dataOf(event) : null;
    if (!mustRead || data === null || data === doneData) {
      if (data === doneData && !this.#hasData) this.#begin({ error: null, version: null, spans: [] });
      out.push(event);
      return null;
    }
    const table = tableOf(data);
    const facts = factsOf(table);
    const fault = this.#faultIn(facts);
    if (fault) return fault;
    this.#version = facts.version ?? this.#version;
    const shown = table && tokens ? tokens.take(table, this.#options.probed) : null;
    if (!this.#hasData) this.#begin(facts);
    out.push(shown ? eventOf(JSON.stringify(shown)) : event);
    return null;
  }

  #faultIn({ error, version, spans }: AnswerFacts): RelayFault | null {
    if (error !== null) return { kind: "error_body", detail: error };
    const { fence, newest } = this.#options;
    if (!isFenced(fence)) return null;
    const named = [...spans.map((span) => span.version), ...(version === null ? [] : [version])];
    const wrong = named.find((one) => !satisfies(one, fence, newest()));
    return wrong === undefined ? null : { kind: "stale", detail: `it drew with weight version ${wrong}` };
  }

  #begin(facts: AnswerFacts): void {
    this.#hasData = true;
    this.#options.begin(facts);
  }

  #write(out: readonly (Buffer | string)[]): void {
    const [only] = out;
    if (only === undefined) return;
    const { client, pause, resume, clock, clientStallMs } = this.#options;
    if (client.destroyed) return;
    const bytes = out.length === 1 ? only : Buffer.concat(out.map((part) => Buffer.from(part as string)));
    // Comments before the first event wait for it: nothing leaves before it is known that the engine answers.
    if (!this.#hasData) return;
    if (client.write(bytes) || this.#isWaiting) return;
    this.#isWaiting = true;
    pause();
    const cancel = clock.after(clientStallMs, () => client.destroy());
    client.once("close", cancel);
    client.once("drain", () => {
      this.#isWaiting = false;
      cancel();
      client.off("close", cancel);
      resume();
    });
  }
}
