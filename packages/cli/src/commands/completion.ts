/** `muster completion`: a script that completes commands, options and names of jobs. */
import { Argument, type Command } from "commander";
import { bashScript } from "../completion/bash.ts";
import { type CommandNode, treeOf } from "../completion/command-tree.ts";
import { fishScript } from "../completion/fish.ts";
import { zshScript } from "../completion/zsh.ts";
import { listed } from "./list.ts";

const scripts: Readonly<Record<string, (tree: CommandNode) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** Adds the command; it completes whatever `program` has by the time it runs. */
export function addCompletionCommand(program: Command): void {
  listed(program, "completion")
    .addArgument(new Argument("<shell>", "your shell").choices(Object.keys(scripts)))
    .action((shell: string) => {
      process.stdout.write(scripts[shell]?.(treeOf(program)) ?? "");
    });
}
