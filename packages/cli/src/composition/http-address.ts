/** Addresses at which an HTTP server listens, as options give them. */
import { errors } from "../errors.ts";

/** `HOST:PORT`, an IPv6 address in brackets; port 0 for any free one. @throws MUSTER_ERR_OPTION_INVALID */
export function addressOf(
  option: string,
  text: string,
  example: string,
): { readonly host: string; readonly port: number } {
  const [, bracketed, plain, port] = /^(?:\[([0-9a-f:.]+)\]|([\w.-]+)):(\d{1,5})$/i.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host !== undefined && Number(port) <= 65_535) return { host, port: Number(port) };
  throw errors.OptionInvalid({ option, value: text || '""', reason: `is not HOST:PORT, for example ${example}` });
}
