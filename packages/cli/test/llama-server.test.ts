/** The weights that Muster trains in llama.cpp's own server: what `muster export --format gguf` writes answers with the trainer's log-probabilities. */
import { spawn } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { taskOf } from "@muster/data";
import { createEmbeddedRolloutEngine, hfConfigOf, loadHfFolder, tensorsOf } from "@muster/engine/embedded";
import { inlineWeights } from "@muster/engine/internal";
import { encodeLlamaGguf } from "@muster/tensors";
import { makeTempDirectory, waitFor } from "@muster/testkit";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const server = process.env.MUSTER_LLAMA_SERVER ?? join(root, ".muster/llama/llama-server");

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

it("llama-server says what the trainer's sampler says, token by token", { timeout: 60_000 }, async (context) => {
  if (!existsSync(server))
    return context.skip(`llama-server is missing (${server}); scripts/get-llama-server.sh .muster/llama fetches it`);
  const task = taskOf("dates");
  const { model, weights } = await loadHfFolder(join(root, "jobs/warm-start/dates"));
  const vocabulary = Array.from({ length: task.vocab }, (_, id) => task.decode(Int32Array.of(id)));
  const parts = {
    config: hfConfigOf(model),
    tensors: tensorsOf(model),
    weights,
    name: "dates",
    vocabulary,
    endToken: 0,
  };
  const folder = await makeTempDirectory();
  const file = join(folder.path, "dates.gguf");
  writeFileSync(file, Buffer.concat(encodeLlamaGguf(parts)));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const options = [
    "-m",
    file,
    "--host",
    "127.0.0.1",
    "--port",
    `${port}`,
    "-c",
    "128",
    "-np",
    "1",
    "-t",
    "1",
    "-fa",
    "off",
    "-ctk",
    "f32",
    "-ctv",
    "f32",
  ];
  const child = spawn(server, options, { stdio: "ignore" });
  const engine = createEmbeddedRolloutEngine({ model });
  try {
    const isUp = async () => (await fetch(`${url}/health`).catch(() => null))?.ok === true;
    await waitFor(isUp, { what: "llama-server is healthy", timeoutMs: 30_000 });
    await engine.updateWeights(inlineWeights(1, weights));
    for (const text of ["3rd of march 1987=", "mar 3 1987=", "03/03/1987="]) {
      const promptIds = task.encode(text);
      const sampling = { temperature: 0, maxNewTokens: 10, stopTokenIds: [] };
      const request = { requestId: text, promptIds, n: 1, sampling, seed: 1 };
      const [[ours]] = (await engine.generate([request], new AbortController().signal)) as never as [
        [{ responseIds: Int32Array; logprobs: Float32Array }],
      ];
      const answer = await fetch(`${url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ prompt: [...promptIds], max_tokens: 10, temperature: 0, logprobs: 1, ignore_eos: true }),
      });
      const { choices } = (await answer.json()) as {
        choices: { logprobs: { content: { id: number; logprob: number }[] } }[];
      };
      const theirs = choices[0]!.logprobs.content;
      expect(theirs.map(({ id }) => id)).toEqual([...ours.responseIds]);
      // At temperature 0 the embedded engine gives log-probabilities of the whole distribution, as llama-server does.
      theirs.forEach(({ logprob }, t) => {
        expect(Math.abs(logprob - ours.logprobs[t]!)).toBeLessThan(1e-3);
      });
    }
  } finally {
    child.kill("SIGKILL");
    await engine.close();
    rmSync(folder.path, { recursive: true, force: true });
  }
});
