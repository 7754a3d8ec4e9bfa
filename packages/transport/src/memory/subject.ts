/** Subject patterns as NATS has them: `*` is one token, a final `>` is one or more. */

/** Makes the test of a pattern. */
export function matcherOf(pattern: string): (subject: string) => boolean {
  const tokens = pattern.split(".").map((token, i, all) => {
    if (token === "*") return "[^.]*";
    return token === ">" && i === all.length - 1 ? ".*" : token.replaceAll(/[$()*+?[\]^{|}\\]/g, "\\$&");
  });
  const expression = new RegExp(`^${tokens.join("\\.")}$`, "s");
  return (subject) => expression.test(subject);
}
