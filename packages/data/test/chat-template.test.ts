/** Chat templates with tools: what they write, and which form of calls they teach. */
import { expect, test } from "vitest";
import { chatTemplateOf } from "../src/hugging-face/chat-template.ts";

const facts = {
  ...{ bos: null, eos: "<|end|>" },
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
