/** What becomes of results on their way into the broker: stored as noise, or reported as they can not be. */
import type { Random } from "@muster/base";
import { type Body, decodeMessage, encodeMessage } from "@muster/protocol";
import { kindOfSubject } from "./subject-kind.ts";

type Receipt = Body<"groups.completed">["receipts"][number];

/** What a receipt may say that is not true of its group; which group it is of stays, by that one knows what was told. The last one points to where nothing lies, which only its readers find out. */
const lies: readonly ((receipt: Receipt) => Partial<Receipt>)[] = [
  ({ completed }) => ({ completed: completed + 1 }),
  ({ aborted }) => ({ aborted: aborted + 1_000 }),
  () => ({ streamSeq: 0 }),
  ({ streamSeq }) => ({ streamSeq: streamSeq + 1_000_000 }),
];

/** True for finished groups, or what names their pieces. */
function isOfResults(data: Uint8Array): boolean {
  const message = decodeMessage(data);
  return (message.kind === "groups.joined" ? message.body.kind : message.kind) === "groups.batch";
}

/** The tampering of one run. */
export class Tampering {
  /** So many of the next messages of groups become noise. */
  spoils = 0;
  /** So many of the next reports of finished groups lie. */
  lies = 0;
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /** What is stored in place of these bytes. */
  of(subject: string, data: Uint8Array): Uint8Array {
    const kind = kindOfSubject(subject);
    if (kind === "groups.completed" && this.lies > 0) return this.#lie(data);
    // The stream has what is begun of groups, too.
    if (kind !== "groups.batch" || this.spoils === 0 || !isOfResults(data)) return data;
    this.spoils--;
    return Uint8Array.from(data, () => this.#random.below(256));
  }

  #lie(data: Uint8Array): Uint8Array {
    const message = decodeMessage(data);
    if (message.kind !== "groups.completed") return data;
    this.lies--;
    const [first, ...others] = message.body.receipts;
    const lie = lies[this.#random.below(lies.length)];
    if (!first || !lie) return data;
    const receipts = [{ ...first, ...lie(first) }, ...others];
    return encodeMessage({ ...message, body: { ...message.body, receipts } });
  }
}
