/** More for a longer response: what the worker beside this file learns in a few steps. */
export const reward = ({ responseIds }) => responseIds.length / 16;
