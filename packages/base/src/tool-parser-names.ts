/** Forms in which models write calls of tools; each is named as inference servers name their parser of it. */
export const toolParserNames = ["hermes", "llama3_json"] as const;

/** One of the {@link toolParserNames}. */
export type ToolParserName = (typeof toolParserNames)[number];
