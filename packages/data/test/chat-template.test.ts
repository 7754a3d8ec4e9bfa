/** Chat templates with tools: what they write, and which form of calls they teach. */
import { spawn } from "node:child_process";
import { on } from "node:events";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { awaitChange } from "../src/chat-templates/await-change.ts";
import { renderLimits } from "../src/chat-templates/messages.ts";
import { chatTemplateOf } from "../src/hugging-face/chat-template.ts";

const facts = {
  ...{ path: "/models/foreign", bos: null, eos: "<|end|>" },
  invalid: (reason: string) => new Error(reason),
};
const said = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}{{ "\\n" }}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`;
const hermes = `{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}${said}`;
const tool = { type: "function", function: { name: "add", description: "adds", parameters: { type: "object" } } };
const toolCalls = [{ id: "c", name: "add", arguments: '{"a":1}' }];

test("a template that writes tools is given them, and arguments of calls as its model was taught to write them", () => {
  const { renderChat, toolParser } = chatTemplateOf({ chatTemplate: hermes, toolTemplate: null }, facts);
  expect(toolParser).toBe("hermes");
  const messages = [
    { role: "user", content: "1?" },
    { role: "assistant", content: "", toolCalls },
    { role: "tool", content: "2", toolCallId: "c" },
  ];
  expect(renderChat?.(messages, [tool])).toBe(
    '{"type": "function", "function": {"name": "add", "description": "adds", "parameters": {"type": "object"}}}' +
      '<|user|>1?<|end|><|assistant|>\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|end|><|tool|>2<|end|><|assistant|>',
  );
  // A conversation without tools is what it was before there were any.
  expect(renderChat?.([{ role: "user", content: "1?" }])).toBe("<|user|>1?<|end|><|assistant|>");
});

test.each([
  ["has no place for tools", said, null, null],
  ["is none", null, null, null],
  ["teaches calls that are no JSON", `${hermes}<function=x>`, null, null],
  ["teaches a form that is not known", "{% for t in tools %}{{ t | tojson }}{% endfor %}", null, null],
  [
    "is that of Llama",
    `${"{% for t in tools %}{{ t | tojson }}{% endfor %}"} "parameters" python_tag`,
    null,
    "llama3_json",
  ],
  ["has another one for tools beside it", said, hermes, "hermes"],
] as const)(
  "whose template %s calls in the form that it teaches, or in none",
  (_, chatTemplate, toolTemplate, form) => {
    expect(chatTemplateOf({ chatTemplate, toolTemplate }, facts).toolParser).toBe(form);
  },
);

/** Each grows or loops without end; where it matters, in the way that a bound elsewhere would not see. */
const endless = [
  [
    "loops",
    "{% for i in range(9000) %}{% for j in range(9000) %}{% endfor %}{% endfor %}",
    /more than 1000 ms or 512 MiB/,
  ],
  ["counts", "{% for i in range(10000000000) %}{% endfor %}", /a range of 10000000000 numbers, more than 1000000/],
  [
    "lengthens a list",
    "{% set ns = namespace(l=[1, 2]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
    /a list of 1048576 items, more than 1000000/,
  ],
  [
    "lengthens a text",
    "{% set ns = namespace(t='ab') %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
    /a text of 8388608 characters, more than 4194304/,
  ],
  [
    "writes what it has nested as JSON",
    "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}",
    /more than 1000 ms or 512 MiB/,
  ],
] as const;

test.each(endless)(
  "a template that %s is given up, and the next is rendered",
  (_, looping, reason) => {
    const template = `{% if messages[0].content == "long" %}${looping}{% endif %}`;
    const { renderChat } = chatTemplateOf({ chatTemplate: template + hermes, toolTemplate: null }, facts);
    const began = performance.now();
    expect(() => renderChat?.([{ role: "user", content: "long" }])).toThrow(
      expect.objectContaining({
        code: "MUSTER_ERR_TEMPLATE_EXCESS",
        message: expect.stringMatching(new RegExp(`/models/foreign.*${reason.source}`)),
      }),
    );
    // The limit is 1 s of computing, waited for four times; a loaded machine is given more before this says that the caller was held up.
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(renderChat?.([{ role: "user", content: "1?" }])).toBe("<|user|>1?<|end|><|assistant|>");
  },
  20_000,
);

test("what a template refuses is said in its own words", () => {
  const chatTemplate = "{{ raise_exception('roles must alternate') }}";
  const { renderChat } = chatTemplateOf({ chatTemplate, toolTemplate: null }, facts);
  expect(() => renderChat?.([{ role: "user", content: "1?" }])).toThrow(/^roles must alternate$/);
});

/** Renders one text after the other, and writes a line for each; the process has nothing else to do. */
const rendering = `
  const { renderTemplate } = await import(process.argv[1]);
  const template = "{% for i in range(40000) %}{{ i }}{% endfor %}";
  for (;;) {
    const answer = renderTemplate({ template, variables: {} });
    await new Promise((resolve) => process.stdout.write(answer.kind === "text" ? "text\\n" : answer.reason + "\\n", resolve));
  }`;

test("the time in which its process is stopped is not the template's", async () => {
  const module = fileURLToPath(new URL("../dist/chat-templates/render.js", import.meta.url));
  const child = spawn(process.execPath, ["--input-type=module", "-e", rendering, module]);
  const answers: string[] = [];
  const told = async (count: number): Promise<void> => {
    const wanted = answers.length + count;
    for await (const [data] of on(child.stdout, "data")) {
      answers.push(...String(data).trim().split("\n"));
      if (answers.length >= wanted) return;
    }
  };
  try {
    await told(3);
    for (let stop = 0; stop < 3; stop++) {
      child.kill("SIGSTOP");
      // Longer than a rendering may take.
      await new Promise((resolve) => setTimeout(resolve, renderLimits.ms + 200));
      child.kill("SIGCONT");
      await told(3);
    }
    expect(new Set(answers)).toEqual(new Set(["text"]));
  } finally {
    child.kill("SIGKILL");
  }
}, 20_000);

/** Wakes whoever waits, twice, and changes the number only after that. */
const waking = `
  const cell = require("node:worker_threads").workerData;
  for (let woken = 0; woken < 2; ) woken += Atomics.notify(cell, 0);
  Atomics.add(cell, 0, 1);
  Atomics.notify(cell, 0);`;

test("a wake-up that belongs to the answer before is not taken for an answer", async () => {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(waking, { eval: true, workerData: cell });
  try {
    expect([awaitChange(cell, 0, 10_000), Atomics.load(cell, 0)]).toEqual([true, 1]);
    expect(awaitChange(cell, 1, 1), "nothing changes any more").toBe(false);
  } finally {
    await worker.terminate();
  }
});
