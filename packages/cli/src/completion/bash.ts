/** Completion for bash, made from the commands. Pure. */
import { type CommandNode, commandsOf, type ValueKind } from "./command-tree.ts";

/** Writes the script; it is sourced by the user's shell, so every word in it is ours. */
export function bashScript(tree: CommandNode): string {
  const nodes = [tree, ...commandsOf(tree)];
  const isGroup = nodes.filter(({ commands }) => commands.length > 0);
  const places = isGroup.flatMap(({ path, commands }) =>
    commands.map((child) => `      "${key(path)}:${child.path.at(-1)}") place="${key(child.path)}" ;;`),
  );
  const words = nodes.map((node) => `    "${key(node.path)}") words="${wordsOf(node).join(" ")}"${fillerOf(node)} ;;`);
  return `# bash completion for muster: source <(muster completion bash)
_muster_jobs() {
  local path name
  for path in runs/*/connection.json; do
    name="\${path%/connection.json}"
    name="\${name##*/}"
    # compgen expands its words, so a name that could be code is not offered.
    case "$name" in *[!a-z0-9-]*) ;; *) printf '%s\\n' "$name" ;; esac
  done
}

_muster() {
  local word="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" place="" words="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$place:\${COMP_WORDS[i]}" in
${places.join("\n")}
    esac
  done
  case "$place $previous" in
${nodes.flatMap(valueCases).join("\n")}
  esac
  case "$place" in
${words.join("\n")}
  esac
  mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o filenames -F _muster muster
`;
}

function key(path: readonly string[]): string {
  return path.join(" ");
}

function wordsOf({ options, commands, arguments: args }: CommandNode): readonly string[] {
  const choices = args.flatMap(({ value }) => (typeof value === "string" ? [] : value));
  return [...commands.map(({ path }) => path.at(-1) ?? ""), ...choices, ...options.map(({ long }) => long)];
}

/** A command that takes a file offers files beside its options. */
function fillerOf({ arguments: args }: CommandNode): string {
  const named = args.find(({ value }) => value === "file" || value === "folder");
  return named ? `; ${fill(named.value)}` : "";
}

/** What follows an option that takes a value. */
function valueCases({ path, options }: CommandNode): readonly string[] {
  return options.flatMap(({ long, value }) =>
    value === null ? [] : [`    "${key(path)} ${long}") ${value === "text" ? "" : `${fill(value)}; `}return ;;`],
  );
}

function fill(value: ValueKind): string {
  const source =
    value === "job"
      ? `-W "$(_muster_jobs)"`
      : value === "folder"
        ? "-d"
        : value === "file"
          ? "-f"
          : `-W "${typeof value === "string" ? "" : value.join(" ")}"`;
  return `mapfile -t COMPREPLY < <(compgen ${source} -- "$word")`;
}
