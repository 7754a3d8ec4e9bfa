// What the host may call. Addresses are byte offsets into the exported memory.
export { adamw, norm } from "./adamw";
export { backward } from "./backward";
export { forward } from "./forward";
export { initialize } from "./init";
export { exponential } from "./math";
export { reserve } from "./memory";
export {
  coefficients,
  defineModel,
  entropies,
  entropyCoefficients,
  logprobs,
  parameters,
  setSharpness,
  tokens,
} from "./model";
export {
  addPart,
  attendPart,
  chooseRows,
  defineRank,
  gatePart,
  logitsPart,
  placePart,
  rankArrived,
  rankLogits,
  rankPart,
  rankStream,
  rankWhole,
} from "./rank";
export {
  copySlot,
  decode,
  defineSampler,
  rowChoices,
  rowLogprobs,
  rowPositions,
  rowSharpness,
  rowSlots,
  rowTokens,
  rowUniforms,
} from "./sample";
