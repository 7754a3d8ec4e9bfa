/** eˣ out of +, −, ·, / alone: the same bits on every machine, which a platform's own function does not promise. */

/** ln 2 in two parts, the first with few enough bits that a multiple of it is exact (Cody and Waite, 1980). */
const [ln2High, ln2Low] = [0.6931471803691238, 1.9082149292705877e-10];

/** eˣ to within 1e-15 of itself; 0 below −700, and above 700 as there. NaN stays NaN. */
export function exponential(x: number): number {
  if (x < -700) return 0;
  const held = Math.min(x, 700);
  const turns = Math.round(held / (ln2High + ln2Low));
  const rest = held - turns * ln2High - turns * ln2Low;
  let [term, sum] = [1, 1];
  for (let k = 1; k <= 16; k++) {
    term *= rest / k;
    sum += term;
  }
  return sum * powerOfTwo(turns);
}

function powerOfTwo(exponent: number): number {
  let [base, left, power] = [exponent < 0 ? 0.5 : 2, Math.abs(exponent), 1];
  while (left >= 1) {
    if (left % 2 === 1) power *= base;
    base *= base;
    left = Math.floor(left / 2);
  }
  return power;
}
