/** Reads the bodies of requests, all together in bounded memory. */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { isNestedTooDeep } from "@muster/http";
import { tableOf } from "../core/answer-facts.ts";
import type { Headers } from "../core/parse-request.ts";
import { invalid, nestedTooDeep, Refused } from "../core/reply.ts";
import { otherMediaType } from "./refusal.ts";

/** Bytes of one body, and of all bodies of requests that are not answered yet. */
export interface BodyBounds {
  readonly bodyBytesMax: number;
  readonly bodiesBytesMax: number;
}

/** Memory of the bodies that are here. It is counted as it arrives: who only says that much will come takes nothing from others. */
export class Bodies {
  readonly #bounds: BodyBounds;
  #bytes = 0;

  constructor(bounds: BodyBounds) {
    this.#bounds = bounds;
  }

  /** Bytes that are held now. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Reads a body. Its bytes count until the answer to it is over.
   *
   * @throws Refused with 400 for what is not UTF-8, with 415, with 413, or with 503 when the bodies of all requests together are too much
   */
  read(request: IncomingMessage, response: ServerResponse): Promise<Buffer> {
    const { bodyBytesMax } = this.#bounds;
    if (!isJson(request.headers)) return Promise.reject(new Refused(otherMediaType));
    const announced = Number(request.headers["content-length"] ?? 0);
    if (announced > bodyBytesMax) return Promise.reject(tooLong(bodyBytesMax));
    if (response.closed || response.destroyed || (request.destroyed && !request.complete))
      return Promise.reject(new Error("the client has gone"));
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      let isRead = false;
      const stop = (error: Error): void => {
        request.off("data", take);
        request.resume();
        chunks.length = 0;
        reject(error);
      };
      const take = (chunk: Buffer): void => {
        bytes += chunk.length;
        this.#bytes += chunk.length;
        if (bytes > bodyBytesMax) stop(tooLong(bodyBytesMax));
        else if (this.#bytes > this.#bounds.bodiesBytesMax) stop(this.#full());
        else chunks.push(chunk);
      };
      response.once("close", () => {
        this.#bytes -= bytes;
        bytes = 0;
        if (isRead) return;
        // Nothing counts it any more.
        request.off("data", take);
        reject(new Error("the client has gone"));
      });
      request.on("data", take);
      request.once("end", () => {
        isRead = true;
        const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
        // Every engine would refuse it, one after the other.
        if (isUtf8(body)) resolve(body);
        else reject(invalid("the body is not UTF-8, as JSON has to be"));
      });
      request.once("error", stop);
    });
  }

  #full(): Refused {
    return new Refused({
      ...{ status: 503, code: "bodies_full", retryAfter: 1 },
      message: `the bodies of all requests together are longer than ${this.#bounds.bodiesBytesMax} bytes; try again in a second`,
    });
  }
}

/** True for a body of JSON, by its head, and where there is no body. */
function isJson({ "content-type": type, "content-length": length, "transfer-encoding": coding }: Headers): boolean {
  if (type === "application/json") return true;
  if (typeof type !== "string") return coding === undefined && (length === undefined || length === "0");
  return type.split(";", 1)[0]?.trim().toLowerCase() === "application/json";
}

/** The JSON object that a body is; none is an empty one. @throws Refused with 400 */
export function tableIn(body: unknown): Readonly<Record<string, unknown>> {
  if (body === undefined || body === null) return {};
  const text = Buffer.isBuffer(body) ? body.toString("utf8") : "";
  const table = tableOf(text);
  if (table) return table;
  throw isNestedTooDeep(text) ? nestedTooDeep() : invalid("the body must be a JSON object");
}

function tooLong(bytesMax: number): Refused {
  return new Refused({ status: 413, code: "too_large", message: `the body is longer than ${bytesMax} bytes` });
}
