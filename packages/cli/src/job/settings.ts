/** Settings that may be changed, from the command line: by the keys of a job file. */
import { type Settings, settingKeys, settingsSchema } from "@muster/protocol";
import { errors } from "../errors.ts";

const names = new Map(Object.entries(settingKeys).map(([name, key]) => [key, name as keyof Settings]));

/** What may be changed, for people. */
export const changeableText = [...names.keys()].join(", ");

/** What stands in a configuration's text for a key; `undefined` where that has no such key. */
export type ValueOf = (key: string) => string | undefined;

/**
 * Reads `key=value` pairs. `earlier` says what the job began with, where that is known here.
 *
 * @throws MUSTER_ERR_SETTING_FIXED for what may not change, MUSTER_ERR_ARGUMENT_INVALID for what is no setting or no value of one
 */
export function settingsOf(pairs: readonly string[], earlier: ValueOf = () => undefined): Settings {
  const given: Record<string, unknown> = {};
  for (const pair of pairs) {
    const [key, value] = split(pair);
    const name = names.get(key);
    if (name === undefined) {
      const began = earlier(key);
      throw errors.SettingFixed({ key, value, began: began ?? "what it began with", changeable: changeableText });
    }
    given[name] = name === "lrSchedule" || value === "" || Number.isNaN(Number(value)) ? value : Number(value);
  }
  const parsed = settingsSchema.safeParse(given);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const name = String(issue?.path[0] ?? "") as keyof Settings;
  throw errors.ArgumentInvalid({
    argument: settingKeys[name] ?? "settings",
    value: String(given[name]),
    reason: issue?.message ?? "it is no value of this key",
  });
}

/** Values of a configuration's text: the last line of each key, as `muster run` wrote all of them at its end. Pure. */
export function valuesIn(configText: string): ValueOf {
  const values = new Map<string, string>();
  for (const line of configText.split("\n")) {
    const [, key, value] = /^([a-z_]+\.[a-z0-9_.]+) = (.*)$/.exec(line) ?? [];
    if (key !== undefined && value !== undefined) values.set(key, value);
  }
  return (key) => values.get(key);
}

function split(pair: string): readonly [key: string, value: string] {
  const at = pair.indexOf("=");
  if (at > 0) return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
  throw errors.ArgumentInvalid({
    argument: "key=value",
    value: pair,
    reason: "write it as optimizer.lr=0.0005",
  });
}
