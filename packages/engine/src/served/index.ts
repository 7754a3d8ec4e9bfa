/** Inference servers of other programs as samplers: SGLang, vLLM, and any of OpenAI's interface. */
export { servedAdapterOf } from "./adapter.ts";
