/** Reward and the time of a step, live. Where the mesh was built anew there is a mark. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { JobFold } from "../view/fold.ts";

const height = 220;

export function Curves({ known }: { readonly known: JobFold }) {
  const { steps, evals, parts } = known;
  const x = steps.map(({ step }) => step);
  const heldAt = new Map(evals.map(({ version, share }) => [version, share]));
  const held = steps.map(({ version }) => heldAt.get(version) ?? null);
  // A job without rewards is told by its loss.
  const shown = steps.length > 0 && steps.every(({ reward }) => reward === null) ? "loss" : "reward";
  const losses = steps.map(({ heldOutLoss }) => heldOutLoss);
  const hasLosses = losses.some((loss) => loss !== null);
  const epochs = steps.flatMap(({ step, epoch }, i) => (i > 0 && steps[i - 1]?.epoch !== epoch ? [step] : []));
  return (
    <div class="pair">
      <Curve
        key={shown}
        title={shown === "loss" ? "Loss" : "Reward"}
        names={[shown, "held-out"]}
        dotted="held-out"
        data={[x, steps.map((step) => step[shown]), held]}
        marks={epochs}
      />
      {hasLosses && (
        <Curve
          title="Held-out loss"
          names={["held-out loss"]}
          dotted="held-out loss"
          data={[x, losses]}
          marks={epochs}
        />
      )}
      <Curve
        title="Time of a step, s"
        names={["step"]}
        data={[x, steps.map(({ stepMs }) => stepMs / 1000)]}
        marks={epochs}
      />
      {parts.length > 0 && (
        // Its lines are fixed once it is drawn: another name is another plot.
        <Curve
          key={parts.join(" ")}
          title="Components of rewards"
          names={parts}
          data={[x, ...parts.map((_, i) => steps.map((step) => step.parts[i] ?? null))]}
          marks={epochs}
        />
      )}
    </div>
  );
}

/** Colours of the style sheet, and dashes: each of twelve lines looks different. */
const colours = 3;
const dashes: readonly number[][] = [[], [8, 4], [2, 3], [12, 3, 2, 3]];

type Column = (number | null)[];

interface CurveProps {
  readonly title: string;
  readonly names: readonly string[];
  readonly data: readonly Column[];
  readonly marks: readonly number[];
  /** The line of single points, far apart. */
  readonly dotted?: string;
}

function Curve({ title, names, data, marks, dotted }: CurveProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef(marks);
  shown.current = marks;

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const colour = (name: string): string => getComputedStyle(element).getPropertyValue(name).trim();
    const axis = {
      stroke: () => colour("--soft"),
      grid: { stroke: () => colour("--grid"), width: 1 },
      ticks: { show: false },
    };
    const drawn = new uPlot(
      {
        ...{ width: element.clientWidth, height, scales: { x: { time: false } }, axes: [axis, axis] },
        series: [
          { label: "step" },
          ...names.map((label, i) => ({
            ...{
              label,
              width: 2,
              spanGaps: true,
              stroke: () => colour(`--c${(i % colours) + 1}`),
              dash: dashes[Math.floor(i / colours) % dashes.length] ?? [],
              points: { show: label === dotted },
            },
            value: (_: uPlot, value: number | null) => (value === null ? "–" : value.toFixed(3)),
          })),
        ],
        hooks: { draw: [(self) => mark(self, shown.current, colour("--faint"))] },
      },
      data as uPlot.AlignedData,
      element,
    );
    plot.current = drawn;
    const resized = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      drawn.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data as uPlot.AlignedData));

  return (
    <section>
      <h2>{title}</h2>
      <div ref={place} class="curve" />
      {data[0]?.length === 0 && <p class="none">No step is committed yet.</p>}
    </section>
  );
}

/** Thin lines where an epoch began. */
function mark(plot: uPlot, steps: readonly number[], colour: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([3, 3]);
  ctx.beginPath();
  for (const step of steps) {
    const x = Math.round(plot.valToPos(step, "x", true));
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
  }
  ctx.stroke();
  ctx.restore();
}
