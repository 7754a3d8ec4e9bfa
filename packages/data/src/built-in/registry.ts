/** The tasks that come with Muster, by name. */
import { promptsTask } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { BuiltInTask } from "../task.ts";
import { addition } from "./addition.ts";
import { dates } from "./dates.ts";

const tasks = new Map([dates, addition].map((task) => [task.name, task]));

/** The built-in task of this name: `dates` or `addition`. @throws MUSTER_ERR_TASK_UNKNOWN naming the known ones. */
export function taskOf(name: string): BuiltInTask {
  const task = tasks.get(name);
  if (!task) throw errors.TaskUnknown({ name, known: [...tasks.keys(), promptsTask].join(", ") });
  return task;
}
