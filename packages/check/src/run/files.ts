/** The files of a run, as `muster run` leaves them. */
export { beginsRow, type EventFields, type EventLine, eventLine, placeOf } from "./event-line.ts";
export { partName, partNumbers, partsIn } from "./parts.ts";
export { firstLine, type PlacedLine, readLines } from "./read-lines.ts";
export { isRunning, lastRow, openRunFolder, type RunFolder } from "./run-folder.ts";
