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

interface Entry<T> {
  readonly matches: (subject: string) => boolean;
  readonly value: T;
}

/** Values by pattern, found by how a subject begins: a thousand who hear what is meant for them cost the others nothing. */
export class SubjectIndex<T> {
  /** By the tokens before the first wildcard. */
  readonly #byHead = new Map<string, Set<Entry<T>>>();

  /** @returns Takes the value out again. */
  add(pattern: string, value: T): () => void {
    const tokens = pattern.split(".");
    const wild = tokens.findIndex((token) => token === "*" || token === ">");
    const head = tokens.slice(0, wild < 0 ? tokens.length : wild).join(".");
    const entries = this.#byHead.get(head) ?? new Set();
    const entry = { matches: matcherOf(pattern), value };
    this.#byHead.set(head, entries.add(entry));
    return () => {
      entries.delete(entry);
      if (entries.size === 0 && this.#byHead.get(head) === entries) this.#byHead.delete(head);
    };
  }

  /** The values whose pattern a subject matches; of one pattern in the order in which they came. */
  matching(subject: string): readonly T[] {
    const found: T[] = [];
    for (const head of headsOf(subject))
      for (const { matches, value } of this.#byHead.get(head) ?? []) if (matches(subject)) found.push(value);
    return found;
  }
}

/** What a subject may begin with, token by token: nothing, its first token, … the whole of it. */
function headsOf(subject: string): readonly string[] {
  const heads = [""];
  for (let end = subject.indexOf("."); end >= 0; end = subject.indexOf(".", end + 1)) heads.push(subject.slice(0, end));
  return [...heads, subject];
}
