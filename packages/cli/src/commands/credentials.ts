/** `muster credentials`: the connection file for another host, with the credentials of some roles and of no others. */
import type { Command } from "commander";
import { connectionRoles, connectionText, credentialsOf, findConnection } from "../composition/connection.ts";
import { errors } from "../errors.ts";
import { type LocationOptions, locationOf, withLocation } from "./common.ts";

const everyRole = "all";

/** Adds the command. */
export function addCredentialsCommand(program: Command): void {
  withLocation(program.command("credentials").description("write a connection file with the passwords of some roles"))
    .argument("<role...>", `what the host is to run: ${connectionRoles.join(", ")}, or ${everyRole}`)
    .action((names: readonly string[], options: LocationOptions) => {
      const roles = rolesOf(names);
      const found = findConnection(locationOf(options), roles);
      const credentials = Object.fromEntries(roles.map((role) => [role, credentialsOf(found, role)]));
      if (process.stdout.isTTY)
        process.stderr.write("muster: these are passwords; keep them in a file that only its owner can read\n");
      process.stdout.write(connectionText({ ...found, credentials }));
    });
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
