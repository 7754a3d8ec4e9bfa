declare const time: unique symbol;

/** A moment on the acting controller's monotonic clock, in milliseconds. Any number may stand for one. */
export type AtMs = number & { readonly [time]?: true };

/** The paths of all moments in a type, declared or only named as one, with `*` for every key of a record and every element of an array. */
export type PathsOfTimes<T, Path extends string = ""> = T extends number
  ? typeof time extends keyof T
    ? Path
    : Path extends `${string}${"AtMs" | "sinceMs" | "untilMs"}`
      ? Path
      : never
  : T extends string | boolean | null | undefined
    ? never
    : T extends readonly (infer Element)[]
      ? PathsOfTimes<Element, Joined<Path, "*">>
      : string extends keyof T
        ? PathsOfTimes<T[string & keyof T], Joined<Path, "*">>
        : { [K in keyof T & string]-?: PathsOfTimes<T[K], Joined<Path, K>> }[keyof T & string];

type Joined<Path extends string, Key extends string> = Path extends "" ? Key : `${Path}.${Key}`;
