/** Keeps a consumer of the client library alive: opens it again whenever it ends without being asked to. */
import { messageOf } from "@muster/base";
import type { ConsumerMessages } from "@nats-io/jetstream";
import { operationTimeoutMs } from "../streams.ts";
import type { Subscription } from "../transport.ts";
import type { Link } from "./link.ts";
import { translate } from "./translate.ts";

const reopenTimeoutMs = 30_000;
const restMs = 1_000;

/** Reads through what `open` gives, for ever. The first opening must succeed; later ones are tried until they do. */
export async function keepReading(
  link: Link,
  what: string,
  open: () => Promise<ConsumerMessages>,
  firstTimeoutMs = operationTimeoutMs,
): Promise<Subscription> {
  let isClosed = false;
  let messages = await link.call(what, open, { timeoutMs: firstTimeoutMs });

  const reopen = async (): Promise<void> => {
    try {
      messages = await link.call(what, open, { timeoutMs: reopenTimeoutMs });
      if (isClosed) await messages.close();
    } catch (error) {
      if (link.isClosed || isClosed) return;
      link.report(translate(error, what));
      await link.pause(restMs);
    }
  };

  const run = async (): Promise<void> => {
    while (!isClosed && !link.isClosed) {
      const reason = await messages.closed();
      if (isClosed || link.isClosed) return;
      link.logger.info({ what, reason: reason ? messageOf(reason) : "ended" }, "reading again");
      await reopen();
    }
  };
  run().catch((error: unknown) => link.report(translate(error, what)));

  return {
    async close() {
      isClosed = true;
      await messages.close();
    },
  };
}
