/**
 * The figures of a run as TensorBoard reads them: one file of events in `tensorboard/` of the run's folder, with the steps that stand, each once. A job
 * that goes on, or goes back, begins another file in place of the one before.
 */
import { appendFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { firstNames } from "@muster/base";
import type { EventMessage } from "@muster/client";
import { type Body, figureNameOf, figuresOf, stepComponentsMax } from "@muster/protocol";
import { makeFolderSync } from "@muster/runtime";
import { type Scalar, scalarsEvent, startEvent, versionEvent } from "./events.ts";
import { recordOf } from "./records.ts";

/** What TensorBoard files are written with. */
export interface TensorBoardOptions {
  /** Folder of the run. */
  readonly directory: string;
  /** Writes; what can not be written is told of, and the job goes on. @returns False when it was not written. */
  readonly attempt: (path: string, write: () => void) => boolean;
  /** Steps in the file; beyond it every second one goes. Default 10,000: TensorBoard itself draws 1,000. */
  readonly stepsMax?: number;
}

/** A point of the curves: of a commit, or of an evaluation. */
interface Point {
  readonly lineage: number;
  readonly version: number;
  readonly step: number;
  readonly isEvaluation: boolean;
  readonly bytes: Uint8Array;
}

const name = /^events\.out\.tfevents\.(\d+)\.muster$/;
const stepsMaxDefault = 10_000;

/** Writes the files of one run. */
export class TensorBoardFiles {
  readonly #options: TensorBoardOptions;
  readonly #folder: string;
  #points: Point[] = [];
  /** Only steps that are multiples of it are kept. */
  #stride = 1;
  #components: readonly string[] = [];
  #path: string | null = null;
  /** What is in memory is not all in the file. */
  #isBehind = false;

  constructor(options: TensorBoardOptions) {
    this.#options = options;
    this.#folder = join(options.directory, "tensorboard");
  }

  take({ kind, body, sentAtMs }: EventMessage): void {
    if (kind === "step.committed") this.#committed(body, sentAtMs);
    else if (kind === "eval.finished") this.#evaluated(body, sentAtMs);
    else if (kind === "job.ended" && this.#forget((point) => isBeyond(point, body))) this.#rewrite();
  }

  #committed(body: Body<"step.committed">, wallMs: number): void {
    const { lineage, version, step } = body;
    const last = this.#points.findLast(({ isEvaluation }) => !isEvaluation);
    // Said again by a controller that follows another one, or of a line that was left.
    if (last && (last.lineage > lineage || (last.lineage === lineage && last.version >= version))) return;
    const wentBack = this.#forget((point) => point.lineage < lineage && point.version >= version);
    if (step % this.#stride !== 0) {
      if (wentBack) this.#rewrite();
      return;
    }
    const scalars = [
      ...figuresOf(body).map(({ family, field, value }): Scalar => [`${family}/${figureNameOf(field)}`, value]),
      ...this.#componentsOf(body),
    ];
    this.#add({ lineage, version, step, isEvaluation: false, bytes: scalarsEvent(wallMs, step, scalars) }, wentBack);
  }

  /** Parts of rewards: curves for the first names that come, and none for others. */
  #componentsOf({ components = [] }: Body<"step.committed">): readonly Scalar[] {
    const heard = components.map(({ name: component }) => component);
    this.#components = firstNames(this.#components, heard, stepComponentsMax);
    return components.flatMap(({ name: component, mean, spread }): Scalar[] =>
      this.#components.includes(component)
        ? [
            [`reward_components/${component}`, mean],
            [`reward_components_spread/${component}`, spread],
          ]
        : [],
    );
  }

  #evaluated({ version, correct, prompts }: Body<"eval.finished">, wallMs: number): void {
    const last = this.#points.at(-1);
    const step = last?.version === version ? last.step : version;
    const scalars: Scalar[] = [["reward/held_out", correct / Math.max(1, prompts)]];
    const bytes = scalarsEvent(wallMs, step, scalars);
    const isAgain = this.#forget((point) => point.isEvaluation && point.version === version);
    this.#add({ lineage: last?.lineage ?? 0, version, step, isEvaluation: true, bytes }, isAgain);
  }

  #add(point: Point, mustRewrite: boolean): void {
    this.#points.push(point);
    if (this.#points.length > (this.#options.stepsMax ?? stepsMaxDefault)) {
      this.#stride *= 2;
      this.#points = this.#points.filter(({ step }) => step % this.#stride === 0);
      this.#rewrite();
      return;
    }
    const path = this.#path;
    if (path === null || mustRewrite || this.#isBehind) this.#rewrite();
    else this.#isBehind = !this.#options.attempt(path, () => appendFileSync(path, recordOf(point.bytes)));
  }

  /** @returns Whether there was something to forget. */
  #forget(isMeant: (point: Point) => boolean): boolean {
    const standing = this.#points.filter((point) => !isMeant(point));
    const isLess = standing.length < this.#points.length;
    this.#points = standing;
    return isLess;
  }

  /** Begins another file with all that stands, and removes those of before: a reader goes on with the newest by name. */
  #rewrite(): void {
    this.#isBehind = !this.#options.attempt(this.#folder, () => {
      makeFolderSync(this.#folder);
      const old = readdirSync(this.#folder).filter((file) => name.test(file));
      const newest = old.reduce((number, file) => Math.max(number, Number(name.exec(file)?.[1])), 0);
      const nowMs = Date.now();
      const path = join(this.#folder, `events.out.tfevents.${Math.max(nowMs, newest + 1)}.muster`);
      const head = [versionEvent(nowMs), startEvent(nowMs, 0)];
      const unfinished = join(this.#folder, "unfinished");
      const all = [...head, ...this.#points.map(({ bytes }) => bytes)].map(recordOf);
      writeFileSync(unfinished, Buffer.concat(all), { mode: 0o600 });
      renameSync(unfinished, path);
      for (const file of old) rmSync(join(this.#folder, file));
      this.#path = path;
    });
  }
}

/** True for what a job left behind that ended in a later lineage before it. */
function isBeyond(point: Point, ended: Body<"job.ended">): boolean {
  return point.lineage < ended.lineage && point.version > ended.version;
}
