/** The commands as data: what completion scripts and the reference are made from. */
import type { Command, Option } from "commander";

/** What a value of an option or argument is, for whoever completes it. */
export type ValueKind = "job" | "folder" | "file" | "text" | readonly string[];

/** An option of a command. */
export interface OptionNode {
  /** `--job`. */
  readonly long: string;
  readonly short: string | null;
  /** As written in help: `--job <name>`. */
  readonly usage: string;
  readonly says: string;
  /** `null` for a switch. */
  readonly value: ValueKind | null;
  /** Value when it is not given; `null` when there is none to show. */
  readonly byDefault: string | null;
}

/** An argument of a command. */
export interface ArgumentNode {
  /** `[file]`. */
  readonly usage: string;
  readonly says: string;
  readonly value: ValueKind;
  readonly byDefault: string | null;
}

/** A command with its commands. */
export interface CommandNode {
  /** Words after `muster`; empty for the program itself. */
  readonly path: readonly string[];
  readonly says: string;
  readonly options: readonly OptionNode[];
  readonly arguments: readonly ArgumentNode[];
  readonly commands: readonly CommandNode[];
}

/** Describes a command and all below it. */
export function treeOf(command: Command, path: readonly string[] = []): CommandNode {
  const help = command.createHelp();
  const commands = help.visibleCommands(command).map((child) => treeOf(child, [...path, child.name()]));
  return {
    path,
    says: command.description(),
    options: help.visibleOptions(command).map(optionOf),
    arguments: command.registeredArguments.map((argument) => ({
      usage: argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
      says: argument.description,
      value: argument.argChoices ?? kindOf(argument.name()),
      byDefault: shown(argument.defaultValue),
    })),
    commands,
  };
}

/** All commands below the program, each before its own commands. */
export function commandsOf(tree: CommandNode): readonly CommandNode[] {
  return tree.commands.flatMap((command) => [command, ...commandsOf(command)]);
}

function optionOf(option: Option): OptionNode {
  const placeholder = /[<[](.+)[>\]]/.exec(option.flags)?.[1];
  return {
    long: option.long ?? option.flags,
    short: option.short ?? null,
    usage: option.flags,
    says: option.description,
    value: placeholder === undefined ? null : (option.argChoices ?? optionKindOf(option.long, placeholder)),
    byDefault: shown(option.defaultValue),
  };
}

function optionKindOf(long: string | undefined, placeholder: string): ValueKind {
  return long === "--job" ? "job" : kindOf(placeholder);
}

function kindOf(placeholder: string): ValueKind {
  if (placeholder === "run") return "job";
  return placeholder === "folder" || placeholder === "file" ? placeholder : "text";
}

function shown(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
