/** Keeps docs/reference/cli.md equal to the commands; `--update` writes it. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { examples, exitCodeTexts } from "../src/commands/help.ts";
import { type CommandNode, commandsOf, treeOf } from "../src/completion/command-tree.ts";
import { createProgram } from "../src/program.ts";
import { root } from "./support/muster.ts";

const program = await createProgram();

describe("the reference of the command line", () => {
  it("says what the commands say (otherwise: npm run docs)", async () => {
    const tree = treeOf(program);
    await expect(pageOf(tree)).toMatchFileSnapshot(join(root, "docs/reference/cli.md"));
  });
});

function pageOf(tree: CommandNode): string {
  const commands = commandsOf(tree).filter(({ path, commands: below }) => path.at(-1) !== "help" && below.length === 0);
  const codes = exitCodeTexts.map(([code, says]) => [`\`${code}\``, says]);
  return `${[
    "# Commands",
    "<!-- Written from the commands by packages/cli/test/reference.test.ts; do not edit. -->",
    "`muster <command> --help` says the same. Options with a default need not be given.",
    ...commands.map(sectionOf),
    "## Exit codes",
    tableOf(["Code", "Meaning"], codes),
  ].join("\n\n")}\n`;
}

function sectionOf({ path, says, options, arguments: args }: CommandNode): string {
  const name = path.join(" ");
  const own = options.filter(({ long }) => long !== "--help");
  const rows = [...args, ...own].map(({ usage, says: meaning, value, byDefault }) => [
    `\`${usage}\``,
    `${meaning.replaceAll("<", "\\<")}${typeof value === "object" && value ? `; ${value.join(", ")}` : ""}`,
    byDefault === null ? "" : `\`${byDefault}\``,
  ]);
  const lines = (examples[name] ?? []).map(([line, about]) => `# ${about}\n${line}`);
  return [
    `## \`${["muster", name, ...args.map(({ usage }) => usage)].join(" ")}\``,
    `${says.charAt(0).toUpperCase()}${says.slice(1)}.`,
    ...(rows.length > 0 ? [tableOf(["Argument or option", "Meaning", "Default"], rows)] : []),
    `\`\`\`sh\n${lines.join("\n")}\n\`\`\``,
  ].join("\n\n");
}

function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
