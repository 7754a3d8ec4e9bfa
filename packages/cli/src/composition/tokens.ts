/** Secrets of HTTP servers: out of a file or the environment, never out of the command line, which others can read. */
import { readFileSync, statSync } from "node:fs";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";

/** @returns The token; `null` when none is given. @throws MUSTER_ERR_RUN_FILE, MUSTER_ERR_SECRET_OPEN, MUSTER_ERR_OPTION_INVALID */
export function tokenOf(option: string, path: string | undefined, fromEnvironment: string | undefined): string | null {
  if (path === undefined) return fromEnvironment ?? null;
  if (fromEnvironment !== undefined)
    throw errors.OptionInvalid({ option, value: path, reason: "is given in the environment, too; give one of them" });
  return secretOf(path).trim();
}

/** Text of a file that nobody but its owner can use. @throws MUSTER_ERR_RUN_FILE, MUSTER_ERR_SECRET_OPEN */
export function secretOf(path: string): string {
  const text = textOf(path);
  const mode = statSync(path).mode & 0o777;
  if ((mode & 0o077) !== 0) throw errors.SecretOpen({ path, mode: mode.toString(8).padStart(4, "0") });
  return text;
}

/** Text of a file that an option names. @throws MUSTER_ERR_RUN_FILE */
export function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw errors.RunFile({ path, reason: messageOf(error) }, error);
  }
}
