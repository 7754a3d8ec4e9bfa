export { hostNameOf, isLoopback, namesAddress, shownHost } from "./hosts.ts";
export { isNestedTooDeep, nestingMax } from "./nesting.ts";
export { bearerOf, isSameSecret } from "./tokens.ts";
