/** The OpenAPI description, made from the schemas that check the requests. */
import { z } from "zod";
import type { Route } from "./routes.ts";
import { answers } from "./schemas.ts";

/** Statuses that every endpoint may answer with, apart from 200. */
const refusals: Readonly<Record<string, string>> = {
  400: "the request can not be read, or the role takes no part in this",
  401: "no token, or an unknown one",
  403: "the token's scope, the host or the origin does not allow it",
  404: "not registered",
  409: "what is asked for contradicts what is there",
  410: "over: cleared, expired, or its sender is gone",
  413: "larger than the limit",
  415: "not application/json",
  422: "a field is missing or has a wrong value",
  429: "too many requests from this address",
  503: "the journal can not be written, or too many calls wait",
  507: "a bound of the coordinator is reached",
};

/** The description of these endpoints as OpenAPI 3.1. */
export function openApiOf(routes: readonly Route[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const each of routes) {
    const methods = paths[each.path] ?? {};
    paths[each.path] = { ...methods, [each.method.toLowerCase()]: operationOf(each) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Checkpoint service coordinator",
      version: "1",
      description: "Every path is served as written here and below /dcs_coordinator.",
    },
    paths,
    components: { securitySchemes: { bearer: { type: "http", scheme: "bearer" } } },
    security: [{ bearer: [] }, {}],
  };
}

function operationOf({ path, method, summary, scope, query, body, answer }: Route): object {
  const error = { content: contentOf(answers.error, "output") };
  const responses = Object.entries(refusals).map(([status, description]) => [status, { description, ...error }]);
  return {
    operationId: `${method.toLowerCase()}${path.replace(/[/_]+(\w)/g, (_, letter: string) => letter.toUpperCase())}`,
    summary,
    description: `Scope: ${scope}.`,
    parameters: parametersOf(query),
    ...(body === null ? {} : { requestBody: { required: true, content: contentOf(body, "input") } }),
    responses: { 200: { description: "done", content: contentOf(answer, "output") }, ...Object.fromEntries(responses) },
  };
}

function contentOf(schema: z.ZodType, io: "input" | "output"): object {
  return { "application/json": { schema: schemaOf(schema, io) } };
}

function parametersOf(query: z.ZodType): readonly object[] {
  const { properties = {}, required = [] } = schemaOf(query, "input") as {
    properties?: Record<string, object>;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    ...{ name, in: "query", required: required.includes(name), schema },
  }));
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
}
