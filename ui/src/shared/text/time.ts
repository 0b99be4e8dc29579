// Moments and ranges. Everything is Unix seconds; only what is shown is in the
// reader's own zone, and the zone is named.

export type TimeRange = { last: number } | { start: number; end: number };

export const presets: { seconds: number; name: string }[] = [
  { seconds: 300, name: '5 min' },
  { seconds: 900, name: '15 min' },
  { seconds: 1800, name: '30 min' },
  { seconds: 3600, name: '1 h' },
  { seconds: 3 * 3600, name: '3 h' },
  { seconds: 6 * 3600, name: '6 h' },
  { seconds: 86400, name: '24 h' },
  { seconds: 7 * 86400, name: '7 d' },
  { seconds: 30 * 86400, name: '30 d' },
];

/** 21600 is "6 h"; what is not a whole number of a unit keeps the smaller one. */
export function spanName(seconds: number): string {
  const s = Math.round(seconds);
  const units: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  if (s === 86400) return '24 h';
  if (s > 120 && s < 3600 && s % 60) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s > 3600 && s % 60) return spanName(Math.round(s / 60) * 60);
  for (const [size, unit] of units) {
    if (s >= size && s % size === 0) return `${s / size} ${unit}`;
  }
  for (const [size, unit] of units) {
    if (s >= 2 * size) return `${Number((s / size).toFixed(1))} ${unit}`;
  }
  return `${s} s`;
}

/** "6h", "15m", "30d" as in the address; undefined when it is not one. */
export function parseSpan(text: string): number | undefined {
  const m = /^(\d+)\s*(s|m|min|h|d|w)$/.exec(text.trim());
  if (!m) return undefined;
  const size = { s: 1, m: 60, min: 60, h: 3600, d: 86400, w: 7 * 86400 }[m[2]] as number;
  const n = Number(m[1]) * size;
  return n > 0 && n <= 400 * 86400 ? n : undefined;
}

export function spanCode(seconds: number): string {
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'm']] as const) {
    if (seconds % size === 0) return `${seconds / size}${unit}`;
  }
  return `${seconds}s`;
}

/**
 * The range to open with when the address names none and data began only at
 * first: the shortest preset that holds it, so that a young system is not a
 * sliver at the right edge. Undefined when the asked range is filled well.
 */
export function fittingRange(first: number, now: number, asked: number): number | undefined {
  const age = now - first;
  if (age > asked / 3) return undefined;
  const fit = presets.find((p) => p.seconds >= age * 1.1) ?? presets[presets.length - 1];
  return fit.seconds < asked ? fit.seconds : undefined;
}

/**
 * The seconds after which a live range is asked for again: one where a second can be
 * seen, else a slot.
 */
export const liveStep = (range: TimeRange): number => ('last' in range && range.last <= 900 ? 1 : 10);

/**
 * The start and end to ask for. A relative range ends at the last live step that
 * ended, so that two questions asked within one are the same question.
 */
export function resolve(range: TimeRange, now: number, slot = liveStep(range)): { start: number; end: number } {
  if ('last' in range) {
    const end = Math.floor(now / slot) * slot;
    return { start: end - range.last, end };
  }
  return range;
}

// Making a formatter costs a hundred times more than using it.
const formatters = new Map<string, Intl.DateTimeFormat>();

function formatter(options: Intl.DateTimeFormatOptions, zone?: string): Intl.DateTimeFormat {
  const key = JSON.stringify([options, zone]);
  let f = formatters.get(key);
  if (!f) {
    f = new Intl.DateTimeFormat('en-GB', { ...options, timeZone: zone });
    formatters.set(key, f);
  }
  return f;
}

function part(t: number, options: Intl.DateTimeFormatOptions, zone?: string): string {
  return formatter(options, zone).format(t * 1000);
}

/** The reader's zone at a moment, by name: CET, UTC, GMT+5:30. */
export function zoneName(t: number, zone?: string): string {
  const parts = formatter({ timeZoneName: 'short' }, zone).formatToParts(t * 1000);
  return parts.find((p) => p.type === 'timeZoneName')?.value ?? 'local time';
}

function sameDay(a: number, b: number, zone?: string): boolean {
  const f: Intl.DateTimeFormatOptions = { year: 'numeric', month: '2-digit', day: '2-digit' };
  return part(a, f, zone) === part(b, f, zone);
}

const clock: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const exactClock: Intl.DateTimeFormatOptions = { ...clock, second: '2-digit' };
const date: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short' };
const day: Intl.DateTimeFormatOptions = { weekday: 'short', ...date };

/** A slot of time: "Fri 20 Nov 14:20–14:21 CET"; seconds only where they matter. */
export function slotName(start: number, end: number, zone?: string): string {
  const c = start % 60 || end % 60 ? exactClock : clock;
  const d = part(start, day, zone).replace(',', '');
  if (sameDay(start, end - 1, zone)) return `${d} ${part(start, c, zone)}–${part(end, c, zone)} ${zoneName(start, zone)}`;
  const e = part(end, day, zone).replace(',', '');
  const before = zoneName(start, zone);
  return `${d} ${part(start, c, zone)}${before === zoneName(end, zone) ? '' : ` ${before}`} – ${e} ${part(end, c, zone)} ${zoneName(end, zone)}`;
}

/** Without what a phone's header has no room for: "20 Nov 14:20–14:21". */
export function shortSlotName(start: number, end: number, zone?: string): string {
  const from = `${part(start, date, zone)} ${part(start, clock, zone)}`;
  return `${from}${sameDay(start, end - 1, zone) ? '–' : ` – ${part(end, date, zone)} `}${part(end, clock, zone)}`;
}

/** A time of day: 14:20, with seconds where it is not a whole minute. */
export const clockName = (t: number, zone?: string): string => part(t, t % 60 ? exactClock : clock, zone);

/** A moment: "Fri 20 Nov 14:20:30 CET". */
export function momentName(t: number, zone?: string): string {
  return `${part(t, day, zone).replace(',', '')} ${part(t, exactClock, zone)} ${zoneName(t, zone)}`;
}

/** A sentence of the server with its moments by the reader's clock: "2026-11-20 13:20 UTC" as "Fri 20 Nov 14:20 CET", and "13:20 UTC", which is of the day of about, as "14:20 CET". */
export const readersTimes = (text: string, zone?: string, about = Date.now() / 1000): string =>
  text.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d(:\d\d)?) UTC(?:, between (\d\d:\d\d:\d\d) and (\d\d:\d\d:\d\d))?/g, (_, date: string, time: string, seconds?: string, low?: string, high?: string) => {
    const at = (clock: string) => Date.parse(`${date}T${clock}Z`) / 1000;
    const t = at(time);
    const moment = seconds ? momentName(t, zone) : `${part(t, day, zone).replace(',', '')} ${part(t, clock, zone)} ${zoneName(t, zone)}`;
    return low && high ? `${moment}, between ${part(at(low), exactClock, zone)} and ${part(at(high), exactClock, zone)}` : moment;
  }).replace(/\b(\d\d):(\d\d)(:\d\d)? UTC\b/g, (_, hours: string, minutes: string, seconds = '') => {
    const t = Math.floor(about / 86400) * 86400 + Number(hours) * 3600 + Number(minutes) * 60;
    return `${part(t, clock, zone)}${seconds} ${zoneName(t, zone)}`;
  });

const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 14 * 86400, 28 * 86400];

/** How far the zone's clock is ahead of UTC at t, in seconds. */
function zoneOffset(t: number, zone?: string): number {
  if (!zone) return -new Date(t * 1000).getTimezoneOffset() * 60;
  const p = Object.fromEntries(
    formatter({
      year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric', hourCycle: 'h23',
    }, zone).formatToParts(t * 1000).map((x) => [x.type, Number(x.value)]),
  );
  return Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second) / 1000 - Math.floor(t);
}

/**
 * Where to draw lines on a time axis, on whole hours and days of the reader's
 * clock, and what to write there: the time, or the day at midnight.
 */
export function timeTicks(start: number, end: number, most: number, zone?: string): { t: number; text: string; major: boolean }[] {
  const span = Math.max(1, end - start);
  const step = steps.find((s) => span / s <= most) ?? steps[steps.length - 1];
  const out: { t: number; text: string; major: boolean }[] = [];
  const offset = zoneOffset(start, zone);
  for (let local = Math.ceil((start + offset) / step) * step; ; local += step) {
    // A change of the clock inside the range shifts what follows it.
    let t = local - offset;
    if (step >= 3600) t = local - zoneOffset(t, zone);
    if (t >= end) break;
    if (t < start) continue;
    const midnight = part(t, clock, zone) === '00:00';
    out.push({
      t,
      major: midnight,
      text: midnight || step >= 86400 ? part(t, { day: 'numeric', month: 'short' }, zone) : part(t, step < 60 ? exactClock : clock, zone),
    });
  }
  return out;
}

/** A moment as <input type="datetime-local"> wants it, in the reader's zone. */
export function toInput(t: number): string {
  const d = new Date((t + zoneOffset(t)) * 1000);
  return d.toISOString().slice(0, 19);
}

/** The reverse; undefined when empty or not a moment. */
export function fromInput(text: string): number | undefined {
  const ms = new Date(text).getTime();
  return text && Number.isFinite(ms) ? Math.floor(ms / 1000) : undefined;
}

/** The places of values that have no value beside them, which a line would not show; null if there are none. A line passes over undefined. */
export function lone(values: ArrayLike<number | null | undefined>): number[] | null {
  const beside = (i: number, by: number): boolean => {
    while (values[(i += by)] === undefined && i >= 0 && i < values.length);
    return values[i] != null;
  };
  const out: number[] = [];
  for (let i = 0; i < values.length; i++) if (values[i] != null && !beside(i, -1) && !beside(i, 1)) out.push(i);
  return out.length ? out : null;
}

/** A window as the address has it. */
export const windowText = (w: { start: number; end: number }) => `${Math.round(w.start)}/${Math.round(w.end)}`;

/** How long ago, in one unit; "in 5 min" for what is to come. */
export function ago(t: number, now: number): string {
  const s = Math.abs(now - t);
  if (s < 45) return 'now';
  const [size, unit] = s < 90 * 60 ? [60, 'min'] : s < 36 * 3600 ? [3600, 'h'] : [86400, 'd'];
  const n = `${Math.max(1, Math.round(s / size))} ${unit}`;
  return t > now ? `in ${n}` : `${n} ago`;
}
