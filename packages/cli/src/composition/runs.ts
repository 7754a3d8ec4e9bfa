/** Folder of the runs unless `--runs` says otherwise. */
export const runsDefault = "runs";

/** Stands for the newest job, as the link of that name in the folder of runs does; no job can have it as its own. */
export const newestName = "latest";
