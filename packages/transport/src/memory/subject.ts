/** Subject patterns as NATS has them: `*` is one token, a final `>` is one or more. */

/** Makes the test of a pattern. */
export function matcherOf(pattern: string): (subject: string) => boolean {
  const wanted = pattern.split(".");
  const isOpen = wanted.at(-1) === ">";
  const fixed = isOpen ? wanted.slice(0, -1) : wanted;
  return (subject) => {
    const tokens = subject.split(".");
    if (isOpen ? tokens.length <= fixed.length : tokens.length !== fixed.length) return false;
    return fixed.every((token, i) => token === "*" || token === tokens[i]);
  };
}
