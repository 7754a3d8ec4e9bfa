export { Allowance } from "./allowance.ts";
export type {
  ChatMessage,
  ChatTool,
  EngineHandle,
  EngineInfo,
  EvalPromptKey,
  GenerateContext,
  Generated,
  GenerateModule,
  GenerateTask,
  Judgement,
  ModuleResponse,
  Prompt,
  Random,
  RewardAnswer,
  RewardFunction,
  RewardInput,
  SamplingOptions,
  TaskModule,
  TaskPrompt,
  TaskTokenizer,
  ToolCall,
  TrainPromptKey,
  TurnRequest,
} from "./contract.ts";
export { withDeadline } from "./deadline.ts";
export {
  type Clock,
  type Counter,
  type Gauge,
  type Histogram,
  type Logger,
  type MetricOptions,
  type Metrics,
  noMetrics,
  type Reading,
  silentLogger,
} from "./env.ts";
export { defineErrors, type ErrorFactory, type ErrorParams, hasCode, MusterError, messageOf } from "./errors.ts";
export { every } from "./every.ts";
export { firstNames } from "./first-names.ts";
export { baseFolder } from "./folder.ts";
export { byUmask, folderMaker } from "./folders.ts";
export { invariant } from "./invariant.ts";
export {
  componentName,
  type Judged,
  judgedOf,
  judgementLimits,
  numberOfAnswer,
  type RefuseJudgement,
  rewardMax,
} from "./judgement.ts";
export { medianOf } from "./median.ts";
export { Places } from "./places.ts";
export { mixSeed, randomOf, shuffled } from "./random.ts";
export type { SectionBytes } from "./section-bytes.ts";
export { shownValue } from "./shown-value.ts";
export { type ByteWindow, rowsWithin, type StridedRows } from "./strided-rows.ts";
export { clipText, listText, ownText } from "./text.ts";
export { type ToolParserName, toolParserNames } from "./tool-parser-names.ts";
export { TreeFold } from "./tree-fold.ts";
export { formatDuration, formatSize, parseDurationMs, parseSizeBytes } from "./units.ts";
