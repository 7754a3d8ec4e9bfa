/**
 * The template library with bounds on the size of every value. It changes the classes of the library, so it must be imported in the thread of
 * templates alone. Without it, one call such as `range(1e10)` allocates more than the memory limit of a thread, which ends the whole process.
 */
import { Environment, Interpreter, Template } from "@huggingface/jinja";
import { renderLimits } from "./messages.ts";

/** A value of a template is larger than a limit. */
export class TemplateExcess extends Error {}

const { evaluate } = Interpreter.prototype;
Interpreter.prototype.evaluate = function (this: Interpreter, ...args: Parameters<typeof evaluate>) {
  const result = evaluate.apply(this, args);
  checkSize(result.value);
  return result;
};

const { set } = Environment.prototype;
Environment.prototype.set = function (this: Environment, name: string, value: unknown) {
  return set.call(this, name, name === "range" ? boundedRange(value as Range) : value);
};

/** The template of a text, whose renderings are bounded in the size of their values. @throws when it can not be read */
export function boundedTemplate(text: string): Template {
  return new Template(text);
}

type Range = (start: number, stop?: number, step?: number) => number[];

function boundedRange(range: Range): Range {
  return (start, stop, step = 1) => {
    const length = Math.abs(((stop ?? 0) - start) / step);
    if (length > renderLimits.items) throw tooLarge(`a range of ${Math.ceil(length)} numbers`, renderLimits.items);
    return range(start, stop, step);
  };
}

function checkSize(value: unknown): void {
  if (typeof value === "string" && value.length > renderLimits.characters)
    throw tooLarge(`a text of ${value.length} characters`, renderLimits.characters);
  if (Array.isArray(value) && value.length > renderLimits.items)
    throw tooLarge(`a list of ${value.length} items`, renderLimits.items);
}

function tooLarge(what: string, most: number): TemplateExcess {
  return new TemplateExcess(`it makes ${what}, more than ${most}`);
}
