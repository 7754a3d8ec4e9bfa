/** The operator's commands over HTTP: checked as the controller checks them, sent, and answered once they are taken. */
import type { JobClient } from "@muster/client";
import { type Body, type CommandKind, commandKinds, messageTable } from "@muster/protocol";

/** What is answered to a command. */
export interface CommandAnswer {
  readonly status: 200 | 202 | 400 | 404 | 409 | 503;
  readonly body: object;
}

/** The controller takes or refuses a command within moments; during a change of controllers within seconds. */
const timeoutMs = 15_000;
/** Commands that wait for their answer at one time. */
const waitingMax = 16;

/** Gives commands of the page to the controller. */
export class CommandDesk {
  readonly #client: JobClient;
  readonly #onGiven: (kind: CommandKind, body: object) => void;
  #waiting = 0;

  constructor(client: JobClient, onGiven: (kind: CommandKind, body: object) => void) {
    this.#client = client;
    this.#onGiven = onGiven;
  }

  async give(name: string, given: unknown, signal: AbortSignal): Promise<CommandAnswer> {
    const kind = commandKinds.find((each) => each === name);
    if (!kind) return refused(404, `"${name.slice(0, 48)}" is no command; use one of ${commandKinds.join(", ")}`);
    const parsed = messageTable[kind].body.safeParse(given ?? {});
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return refused(400, `${kind}: ${issue?.path.join(".") || "the body"}: ${issue?.message}`);
    }
    if (this.#waiting >= waitingMax) return refused(503, `${waitingMax} commands wait for the controller already`);
    this.#waiting += 1;
    try {
      this.#onGiven(kind, parsed.data);
      const end = await this.#client.command(kind, parsed.data as Body<typeof kind>, {
        timeoutMs,
        until: "accepted",
        signal,
      });
      if (end === null)
        return {
          status: 202,
          body: { outcome: "stored", detail: "no controller has taken it yet; one will, once it can" },
        };
      return { status: end.outcome === "refused" ? 409 : 200, body: end };
    } finally {
      this.#waiting -= 1;
    }
  }
}

function refused(status: 400 | 404 | 503, message: string): CommandAnswer {
  return { status, body: { error: message } };
}
