/**
 * Actors of a newer minor version: whatever they say has fields, in its envelope, in every object of its body and of the job's configuration, that nobody here
 * knows.
 */
import { pack, readPlain } from "@muster/protocol";
import { protocolMinor } from "@muster/protocol/internal";
import type { Transport } from "@muster/transport";

/** The transport of such an actor. `said` counts its messages. */
export function newerMinor(transport: Transport, said: { count: number }): Transport {
  const spoken = (data: Uint8Array): Uint8Array => {
    said.count += 1;
    const message = readPlain(data) as { readonly body: unknown };
    const body = grown(message.body);
    return Uint8Array.from(pack({ ...message, minor: protocolMinor + 1, later: { shape: "new" }, body }));
  };
  const own: Partial<Transport> = {
    publish: (subject, data, options) => transport.publish(subject, spoken(data), options),
    send: (subject, data) => transport.send(subject, spoken(data)),
  };
  return new Proxy(transport, {
    get(target, name) {
      const value: unknown = Reflect.get(own, name) ?? Reflect.get(target, name);
      return typeof value === "function" && !(name in own) ? value.bind(target) : value;
    },
  });
}

function grown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(grown);
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  const fields = Object.entries(value).map(([key, inner]) => [key, more[key]?.(inner) ?? grown(inner)]);
  return { ...Object.fromEntries(fields), later: [1] };
}

/** A configuration is a text of its own, and in it the table of an engine is for that engine alone. */
const more: Readonly<Record<string, (inner: unknown) => unknown>> = {
  config: (config) => (typeof config === "string" ? JSON.stringify(grown(JSON.parse(config))) : grown(config)),
  options: (options) => options,
};
