export { hostNameOf, isLoopback, namesAddress, shownHost } from "./hosts.ts";
export { bearerOf, isSameSecret } from "./tokens.ts";
