// Tokens per second of the compiled core, one thread: 2 layers, width 64, 4 heads, vocabulary 64, context 32.
// With --json it ends with one line as `npm run bench` writes it: {bench, rows: [{name, value, unit, aim, met}]}.
import { openCore } from "../dist/embedded/core.js";

const model = { vocab: 64, hidden: 64, layers: 2, heads: 4, kvHeads: 4, ffn: 128, maxContext: 32, tied: true };
const batch = 32;
const slots = 256;
const isJson = process.argv.includes("--json");
const rows = [];
const core = openCore(model, { tokens: batch * model.maxContext, slots });
const { call, parameters } = core;
const [weights, gradient, first, second] = [0, 1, 2, 3].map(() => call.reserve(parameters));
call.initialize(weights, 1);

const size = batch * model.maxContext;
core.integers(call.tokens.value, size).forEach((_, i, tokens) => {
  tokens[i] = (i * 7919) % model.vocab;
});
core.floats(call.coefficients.value, size).fill(-1 / size);
core.integers(call.rowSlots.value, slots).forEach((_, i, rows) => {
  rows[i] = i;
});
core.floats(call.rowSharpness.value, slots).fill(1);

function measure(name, tokensPerRun, run) {
  for (let i = 0; i < 5; i++) run();
  const started = performance.now();
  let runs = 0;
  while (performance.now() - started < 2000) {
    run();
    runs++;
  }
  const rate = (runs * tokensPerRun * 1000) / (performance.now() - started);
  rows.push({ name, value: Math.round(rate), unit: "tokens/s", aim: null, met: null });
  if (!isJson) console.log(`${name.padEnd(8)} ${Math.round(rate).toLocaleString("en-US").padStart(9)} tokens/s`);
}

measure("forward", size, () => call.forward(weights, batch, model.maxContext));
measure("train", size, () => {
  call.forward(weights, batch, model.maxContext);
  call.backward(weights, gradient, batch, model.maxContext);
  call.adamw(weights, first, second, gradient, parameters, 1, 1, 0, 0.9, 0.99, 1e-8, 0);
});
measure("sample", slots * model.maxContext, () => {
  for (let position = 0; position < model.maxContext; position++) {
    core.integers(call.rowPositions.value, slots).fill(position);
    call.decode(weights, slots);
    core.integers(call.rowTokens.value, slots).set(core.integers(call.rowChoices.value, slots));
  }
});

if (isJson) console.log(JSON.stringify({ bench: "core", rows }));
