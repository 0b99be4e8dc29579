// A rectangle of the heatmap: a stretch of time and a band of values.

export interface Box {
  start: number; // inclusive
  end: number; // exclusive
  low: number; // exclusive
  high: number | null; // inclusive; null: no bound
}

/** As the address has it: start-end-low-high, an open end left out. */
export function encodeBox(b: Box): string {
  const digits = (x: number) => String(Number(x.toPrecision(5)));
  return [b.start, b.end, digits(b.low), b.high == null ? '' : digits(b.high)].join('_');
}

/** The reverse; null when it is none. */
export function decodeBox(s: string | undefined): Box | null {
  const p = s?.split('_');
  if (p?.length !== 4) return null;
  const [start, end, low, high] = p.map((x) => (x === '' ? NaN : Number(x)));
  if (!(start > 0 && end > start && low >= 0) || !(p[3] === '' || high > low)) return null;
  return { start, end, low, high: p[3] === '' ? null : high };
}
