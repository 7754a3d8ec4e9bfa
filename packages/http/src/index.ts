export { hostNameOf, isLoopback, namesAddress, shownHost } from "./hosts.ts";
export { isNestedTooDeep, nestingMax } from "./nesting.ts";
export { noRequestOf, type RequestBounds, rawAnswer } from "./no-request.ts";
export { bearerOf, isSameSecret } from "./tokens.ts";
