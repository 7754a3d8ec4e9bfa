/** Colours of lines. Pure; what is painted must have been cleaned. */
const reset = "\u001b[0m";
const colours = { red: "\u001b[31m", green: "\u001b[32m", yellow: "\u001b[33m", cyan: "\u001b[36m", dim: "\u001b[2m" };

/** A name of a colour. */
export type Colour = keyof typeof colours;

/** Paints a text. */
export function painted(text: string, colour: Colour, hasColour: boolean): string {
  return hasColour && text !== "" ? `${colours[colour]}${text}${reset}` : text;
}

/** What the first character of a line of news means. */
const signs: Readonly<Record<string, Colour>> = { "+": "green", "-": "yellow", "?": "yellow", "!": "red", ">": "cyan" };

/** Paints a line of news by its sign. */
export function paintedNews(line: string, hasColour: boolean): string {
  const colour = signs[line.slice(0, 1)];
  return colour === undefined ? line : painted(line, colour, hasColour);
}
