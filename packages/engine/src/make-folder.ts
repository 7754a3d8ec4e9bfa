import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { folderMaker } from "@muster/base";

/** Makes a folder, and those above it that are not there. @throws The system's error, which names the folder that can not be made. */
export const makeFolderSync = folderMaker({ mkdirSync, statSync, dirname });
