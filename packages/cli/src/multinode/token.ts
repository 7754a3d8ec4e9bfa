/** The join token: the one secret that all ranks share. It lets a rank in, and it is the key of what goes between ranks and master. */
import { createHash, randomBytes } from "node:crypto";
import { statSync, writeFileSync } from "node:fs";
import { messageOf } from "@muster/base";
import { secretOf } from "../composition/tokens.ts";
import { errors } from "../errors.ts";

const variable = "MUSTER_JOIN_TOKEN";
const lengthMin = 32;
const lengthMax = 256;

/** A token, and how another rank gets it. */
export interface JoinToken {
  readonly text: string;
  /** Options and variables of another rank. */
  readonly way: { readonly env: readonly string[]; readonly args: readonly string[] };
}

/** Where a token may come from. */
export interface TokenSources {
  /** `--join-token-file`. */
  readonly file: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The token of a rank that joins. @throws MUSTER_ERR_OPTION_INVALID, MUSTER_ERR_RUN_FILE, MUSTER_ERR_SECRET_OPEN, MUSTER_ERR_JOIN_TOKEN_MISSING */
export function givenToken({ file, env }: TokenSources): string {
  const given = env[variable];
  if (given !== undefined && file !== undefined)
    throw errors.OptionInvalid({
      option: "join-token-file",
      value: file,
      reason: `is given, and so is ${variable}; give one of them`,
    });
  if (given !== undefined) return checked(given.trim(), variable);
  if (file === undefined) throw errors.JoinTokenMissing({ variable });
  return checked(secretOf(file).trim(), file);
}

/** The token of a master: the one that was given, else that of its file, which is made where there is none. @param kept - The file of a run. */
export function masterToken({ file, env }: TokenSources, kept: string): JoinToken {
  if (env[variable] !== undefined) return { text: givenToken({ file, env }), way: { env: [], args: [] } };
  const path = file ?? kept;
  if (!statSync(path, { throwIfNoEntry: false })) writeToken(path);
  const text = givenToken({ file: path, env: {} });
  const args = file === undefined ? [] : ["--join-token-file", file];
  return { text, way: { env: file === undefined ? [`${variable}=${text}`] : [], args } };
}

function writeToken(path: string): void {
  try {
    writeFileSync(path, `${randomBytes(24).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
  } catch (error) {
    throw errors.OptionInvalid({
      option: "join-token-file",
      value: path,
      reason: `can not be written: ${messageOf(error)}`,
    });
  }
}

function checked(text: string, from: string): string {
  if (text.length >= lengthMin && text.length <= lengthMax && /^[\w.~+/=-]+$/.test(text)) return text;
  throw errors.JoinTokenInvalid({ from, length: text.length, min: lengthMin, max: lengthMax });
}

/** The key that both sides of a connection prove to have, 32 bytes. */
export function keyOf(token: string): Buffer {
  return createHash("sha256").update("muster join 1\0").update(token).digest();
}
