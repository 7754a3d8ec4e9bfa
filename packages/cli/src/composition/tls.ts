/** Certificates of HTTP servers, as options give them. */
import { createSecureContext } from "node:tls";
import { messageOf } from "@muster/base";
import type { Command } from "commander";
import { errors } from "../errors.ts";
import { secretOf, textOf } from "./tokens.ts";

/** Options of a server that can speak HTTPS. */
export interface TlsOptions {
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

/** A certificate with its key, both as PEM. */
export interface Tls {
  readonly cert: string;
  readonly key: string;
}

/** Adds the options. */
export function withTls(command: Command): Command {
  return command
    .option("--tls-cert <file>", "certificate, as PEM, with those that vouch for it")
    .option("--tls-key <file>", "key of the certificate, as PEM");
}

/**
 * The certificate that was given; `null` without one.
 *
 * @throws MUSTER_ERR_OPTION_INVALID for one without the other, and for a pair that no server can use; MUSTER_ERR_RUN_FILE, MUSTER_ERR_SECRET_OPEN
 */
export function tlsOf({ tlsCert, tlsKey }: TlsOptions): Tls | null {
  if (tlsCert === undefined && tlsKey === undefined) return null;
  if (tlsCert === undefined || tlsKey === undefined) {
    const [option, value, other] =
      tlsKey === undefined ? ["tls-cert", tlsCert, "tls-key"] : ["tls-key", tlsKey, "tls-cert"];
    throw errors.OptionInvalid({ option, value: value ?? "", reason: `goes with --${other}; give both` });
  }
  const tls = { cert: textOf(tlsCert), key: secretOf(tlsKey) };
  try {
    createSecureContext(tls);
  } catch (error) {
    const reason = `and --tls-key ${tlsKey} are no certificate with its key, as PEM: ${messageOf(error)}`;
    throw errors.OptionInvalid({ option: "tls-cert", value: tlsCert, reason });
  }
  return tls;
}
