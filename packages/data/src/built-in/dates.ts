/**
 * Date normalisation: `march 3rd, 1987=` → `1987-03-03$`, in eight human formats. The warm start sees four of them, so
 * reinforcement learning has the other four to discover. A tenth of all dates, by hash, is held out of all training.
 */
import type { Prompt, Random } from "@muster/base";
import { evalStream, trainStream } from "../prompt-streams.ts";
import type { BuiltInTask } from "../task.ts";
import { alphabetOf } from "./alphabet.ts";

/** A calendar date; months and days count from 1. */
interface CalendarDate {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

const months = "january february march april may june july august september october november december".split(" ");
const weekdays = "sun mon tue wed thu fri sat".split(" ");
const two = (value: number): string => String(value).padStart(2, "0");
const nameOf = ({ month }: CalendarDate): string => months[month - 1]!;
const shortOf = (date: CalendarDate): string => nameOf(date).slice(0, 3);

function ordinalOf({ day }: CalendarDate): string {
  const teen = day >= 11 && day <= 13;
  const suffix = teen ? "th" : (["th", "st", "nd", "rd"][day % 10] ?? "th");
  return `${day}${suffix}`;
}

function weekdayOf({ year, month, day }: CalendarDate): string {
  return weekdays[new Date(Date.UTC(year, month - 1, day)).getUTCDay()]!;
}

const formats: readonly ((date: CalendarDate) => string)[] = [
  (date) => `${nameOf(date)} ${ordinalOf(date)}, ${date.year}`,
  (date) => `${date.day} ${nameOf(date)} ${date.year}`,
  (date) => `${shortOf(date)} ${date.day} ${date.year}`,
  ({ day, month, year }) => `${day}. ${month}. ${year}`,
  ({ day, month, year }) => `${two(day)}/${two(month)}/${year}`,
  (date) => `${ordinalOf(date)} of ${nameOf(date)} ${date.year}`,
  (date) => `${date.day}-${shortOf(date)}-${date.year}`,
  (date) => `${weekdayOf(date)}, ${shortOf(date)} ${ordinalOf(date)} ${date.year}`,
];
/** Formats of the warm start. Every separator occurs in one of them: a character never seen stays unlearnable. */
const supervisedFormats = [0, 2, 4, 6];
const allFormats = [0, 1, 2, 3, 4, 5, 6, 7];

const vocabulary = "$abcdefghijklmnopqrstuvwxyz0123456789 ,./-=";
const alphabet = alphabetOf(vocabulary, "dates");

function isHeldOut({ year, month, day }: CalendarDate): boolean {
  return (((year * 372 + (month - 1) * 31 + day) * 2654435761) >>> 0) % 10 === 0;
}

function drawDate(random: Random, heldOut: boolean): CalendarDate {
  for (;;) {
    const year = 1900 + random.below(150);
    const month = 1 + random.below(12);
    const day = 1 + random.below(new Date(Date.UTC(year, month, 0)).getUTCDate());
    const date = { year, month, day };
    if (isHeldOut(date) === heldOut) return date;
  }
}

function drawPrompt(random: Random, from: readonly number[], heldOut: boolean): Prompt {
  const format = formats[from[random.below(from.length)]!]!;
  const date = drawDate(random, heldOut);
  const text = `${format(date)}=`;
  return { ids: alphabet.encode(text), text, answer: `${date.year}-${two(date.month)}-${two(date.day)}` };
}

/** The date task. */
export const dates: BuiltInTask = {
  name: "dates",
  vocabulary,
  close: async () => {},
  maxTokens: 36,
  trainPrompt: (key) => drawPrompt(trainStream(key), allFormats, false),
  evalPrompt: (index) => drawPrompt(evalStream(index), allFormats, true),
  supervised: (random) => {
    const prompt = drawPrompt(random, supervisedFormats, false);
    return { promptIds: prompt.ids, answerIds: alphabet.encode(`${prompt.answer}$`) };
  },
  ...alphabet,
};
