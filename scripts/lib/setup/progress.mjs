/** How far a step is, from what its command writes: builders say `[ 12%] Building …`. */

const shareSaid = /\[ *(\d{1,3})%\]/g;

/** A share is told when it is so much more than the last one that was told. */
const stride = 10;

/**
 * Tells of progress on the line of the step, so that minutes of compiling are not minutes of silence.
 *
 * @param {(text: string) => void} say
 * @returns {(chunk: Buffer | string) => void} Takes what the command writes.
 */
export function progressTeller(say) {
  let told = 0;
  let rest = "";
  return (chunk) => {
    const text = rest + chunk.toString();
    rest = text.slice(text.lastIndexOf("\n") + 1);
    for (const [, share] of text.matchAll(shareSaid)) {
      const now = Number(share);
      if (now < told + stride || now >= 100) continue;
      told = now - (now % stride);
      say(`${now} % … `);
    }
  };
}
