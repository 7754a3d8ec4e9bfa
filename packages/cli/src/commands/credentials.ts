/** `muster credentials`: the connection file for another host, with the credentials of some roles and of no others. */
import { checkId } from "@muster/protocol";
import { credentialsOfReplica } from "@muster/transport";
import type { Command } from "commander";
import { connectionRoles, connectionText, credentialsOf, findConnection } from "../composition/connection.ts";
import { errors } from "../errors.ts";
import { type LocationOptions, locationOf, withLocation } from "./common.ts";
import { listed } from "./list.ts";

const everyRole = "all";

/** Adds the command. */
export function addCredentialsCommand(program: Command): void {
  withLocation(listed(program, "credentials"))
    .argument("<role...>", `what the host is to run: ${connectionRoles.join(", ")}, or ${everyRole}`)
    .option("--replica <id>", "credentials that fit one process of the role and no other")
    .action((names: readonly string[], options: Options) => {
      const roles = rolesOf(names);
      const found = findConnection(locationOf(options), roles);
      const id = replicaOf(roles, options.replica);
      const credentials = Object.fromEntries(
        roles.map((role) => {
          const whole = credentialsOf(found, role);
          return [role, id === null ? whole : credentialsOfReplica(whole, id)];
        }),
      );
      if (process.stdout.isTTY)
        process.stderr.write("muster: these are keys; keep them in a file that only its owner can read\n");
      process.stdout.write(connectionText({ ...found, credentials }));
    });
}

interface Options extends LocationOptions {
  readonly replica?: string;
}

function replicaOf(roles: readonly string[], id: string | undefined): string | null {
  if (id === undefined) return null;
  if (roles.length === 1) return checkId("id", id);
  throw errors.OptionInvalid({ option: "replica", value: id, reason: "is of one role; name that role alone" });
}

function rolesOf(names: readonly string[]): readonly string[] {
  if (names.includes(everyRole)) return connectionRoles;
  for (const name of names)
    if (!connectionRoles.some((role) => role === name))
      throw errors.ArgumentInvalid({
        argument: "role",
        value: name,
        reason: `roles are ${connectionRoles.join(", ")}, and ${everyRole} stands for all of them`,
      });
  return [...new Set(names)];
}
