/** Names that others make up, such as those of components of rewards, where each name costs something: a label, a curve, a chart. */

/**
 * The names that are shown once these are heard, too: the first `most` that came, in the order in which they came, and no others. Pure; runs in browsers.
 *
 * @param shown - Names that are shown already; they stay.
 * @returns `shown` itself when nothing is new, or no room is left.
 */
export function firstNames(shown: readonly string[], heard: Iterable<string>, most: number): readonly string[] {
  if (shown.length >= most) return shown;
  const names = new Set(shown);
  for (const name of heard) if (names.size < most) names.add(name);
  return names.size > shown.length ? [...names] : shown;
}
