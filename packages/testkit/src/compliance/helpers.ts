/** Small words of the compliance suite. */
import { type Subjects, subjectsOf } from "@muster/protocol";
import type { ConsumeOptions, Delivery, Transport } from "@muster/transport";
import { waitFor } from "../wait-for.ts";
import type { Actors } from "./actors.ts";

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function text(data: Uint8Array): string {
  return new TextDecoder().decode(data);
}

export function subjects(transport: Transport): Subjects {
  return subjectsOf(transport.job);
}

/** Collects what a handler is given, and waits for a number of them. */
export class Inbox<T extends { readonly data: Uint8Array }> {
  readonly items: T[] = [];
  readonly take = (item: T): void => void this.items.push(item);

  get texts(): readonly string[] {
    return this.items.map(({ data }) => text(data));
  }

  async has(count: number): Promise<readonly T[]> {
    await waitFor(() => this.items.length >= count, { what: `${count} messages`, detail: () => this.texts });
    return this.items;
  }
}

/** An inbox that acknowledges at once. */
export function ackingInbox(): Inbox<Delivery> & { readonly ack: (delivery: Delivery) => void } {
  const inbox = new Inbox<Delivery>();
  return Object.assign(inbox, {
    ack: (delivery: Delivery): void => {
      inbox.take(delivery);
      delivery.ack();
    },
  });
}

/** Publishes texts in order; each is its own message id. */
export async function publishAll(transport: Transport, subject: string, texts: readonly string[]): Promise<void> {
  for (const each of texts) await transport.publish(subject, bytes(each), { msgId: `${subject}/${each}` });
}

/** How an actor reads its commands, but for the handler. */
export function commandsOf(
  actors: () => Actors,
  id: string,
  options: { readonly consumer?: string; readonly maxPending?: number; readonly ackWaitMs?: number } = {},
): Omit<ConsumeOptions, "handle"> {
  return {
    stream: "commands",
    consumer: `${id}-a1`,
    filter: subjects(actors().controller).all.commandsOf(id),
    deliver: "new",
    maxPending: 16,
    ...options,
  };
}

/** Commands an actor, `r0` unless told otherwise. */
export function command(actors: () => Actors, texts: readonly string[], id = "r0"): Promise<void> {
  const { controller } = actors();
  return publishAll(controller, subjects(controller).command(id, "work.assign"), texts);
}
