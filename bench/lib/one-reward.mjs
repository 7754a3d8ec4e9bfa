/** A reward that costs nothing: what is measured is everything around it. */
export const reward = () => 1;
