/** `muster types`: the declarations of what a job's own modules are given and return. */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { listed } from "./list.ts";

/** Adds the command. */
export function addTypesCommand(program: Command): void {
  listed(program, "types").action(() => {
    process.stdout.write(contractText());
  });
}

/** One file without imports, as the compiler wrote it. */
function contractText(): string {
  const declarations = new URL("./contract.d.ts", import.meta.resolve("@muster/base"));
  return `${readFileSync(declarations, "utf8").replace(/\n\/\/# sourceMappingURL=.*\s*$/, "")}\n`;
}
