/** How weights are called where a server may call them: the engine that brought them, and the version. */
const pattern = /^muster-[0-9a-f]{8}-v(\d{1,16})$/;

/** @param life - Eight hexadecimal digits of the engine that brings them, so that nobody takes another one's weights for its own. */
export const tagOf = (life: string, version: number): string => `muster-${life}-v${version}`;

/** True for a name that {@link tagOf} made, here or elsewhere. */
export const isTag = (name: string): boolean => pattern.test(name);
