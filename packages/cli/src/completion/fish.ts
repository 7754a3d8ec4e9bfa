/** Completion for fish, made from the commands. Pure. */
import { type CommandNode, commandsOf, type ValueKind } from "./command-tree.ts";

/** Writes the script: one `complete` per command and option. */
export function fishScript(tree: CommandNode): string {
  const lines = [tree, ...commandsOf(tree)].flatMap((node) => {
    const where = `complete -c muster -n ${quote(conditionOf(node))}`;
    const commands = node.commands.map(({ path, says }) => `${where} -a ${path.at(-1)} -d ${quote(says)}`);
    const options = node.options.map(({ long, short, says, value }) => {
      const names = `${short === null ? "" : `-s ${short.slice(1)} `}-l ${long.slice(2)}`;
      return `${where} ${names} -d ${quote(says)}${value === null ? "" : fill(value)}`;
    });
    const files = node.arguments.flatMap(({ value }) => {
      if (typeof value !== "string") return [`${where} -a ${quote(value.join(" "))}`];
      return value === "file" ? [`${where} -F`] : [];
    });
    return [...commands, ...options, ...files];
  });
  return `# fish completion for muster: muster completion fish | source
function __muster_jobs
  path basename (path dirname runs/*/connection.json)
end

complete -c muster -f
${lines.join("\n")}
`;
}

/** True where the words so far name this command and none below it. */
function conditionOf({ path, commands }: CommandNode): string {
  const below = commands.map((child) => child.path.at(-1));
  const here = path.map((word) => `__fish_seen_subcommand_from ${word}`);
  const notBelow = below.length > 0 ? [`not __fish_seen_subcommand_from ${below.join(" ")}`] : [];
  return [...here, ...notBelow].join("; and ") || "true";
}

function fill(value: ValueKind): string {
  if (typeof value !== "string") return ` -x -a ${quote(value.join(" "))}`;
  return {
    job: " -x -a '(__muster_jobs)'",
    folder: " -x -a '(__fish_complete_directories)'",
    file: " -r -F",
    text: " -x",
  }[value as "job" | "folder" | "file" | "text"];
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
