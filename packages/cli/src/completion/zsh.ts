/** Completion for zsh, made from the commands. Pure. */
import { type CommandNode, commandsOf, type ValueKind } from "./command-tree.ts";

/** Writes the script, to be sourced after `compinit` or stored as `_muster` in a folder of `fpath`. */
export function zshScript(tree: CommandNode): string {
  const nodes = [tree, ...commandsOf(tree)];
  const places = nodes.flatMap(({ path, commands }) =>
    commands.map((child) => `      "${path.join(" ")}:${child.path.at(-1)}") place="${child.path.join(" ")}" ;;`),
  );
  return `#compdef muster
# zsh completion for muster: source <(muster completion zsh)
_muster_jobs() {
  local -a jobs
  jobs=(runs/*/connection.json(N:h:t))
  compadd -a jobs
}

_muster() {
  local place="" i
  local -a entries
  for ((i = 2; i < CURRENT; i++)); do
    case "$place:\${words[i]}" in
${places.join("\n")}
    esac
  done
  case "$place \${words[CURRENT-1]}" in
${nodes.flatMap(valueCases).join("\n")}
  esac
  case "$place" in
${nodes.map(entriesCase).join("\n")}
  esac
  _describe muster entries
}

compdef _muster muster
`;
}

/** What follows an option that takes a value. */
function valueCases({ path, options }: CommandNode): readonly string[] {
  return options.flatMap(({ long, value }) =>
    value === null ? [] : [`    "${path.join(" ")} ${long}") ${fill(value)}; return ;;`],
  );
}

function fill(value: ValueKind): string {
  if (typeof value !== "string") return `compadd ${value.join(" ")}`;
  return { job: "_muster_jobs", folder: "_files -/", file: "_files", text: "_message value" }[value as string] ?? ":";
}

function entriesCase({ path, options, commands, arguments: args }: CommandNode): string {
  const choices = args.flatMap(({ value }) => (typeof value === "string" ? [] : value.map((word) => quote(word))));
  const entries = [
    ...commands.map((child) => quote(`${child.path.at(-1)}:${child.says}`)),
    ...choices,
    ...options.map(({ long, says }) => quote(`${long}:${says}`)),
  ];
  const files = args.some(({ value }) => value === "file") ? " _files;" : "";
  return `    "${path.join(" ")}")${files} entries=(${entries.join(" ")}) ;;`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
