/** A test with a mutant ends in time, whatever the mutant does to it. */
const { setTimeout, clearTimeout } = globalThis;

/** @template T @param {() => T} run The test. @param {number} limitMs */
export async function limited(run, limitMs) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("the test does not end with the mutant")), limitMs);
  });
  try {
    await Promise.race([run(), late]);
  } finally {
    clearTimeout(timer);
  }
}
