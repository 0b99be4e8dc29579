// Every view is a link: what the page shows, as an address and back. Pure, so
// that the round trip is tested. What is left at its default is left out.

import type { AxisKind } from '../chart/heat';
import type { Filters } from './match';
import type { CountScale } from '../chart/ramp';
import { parseSpan, spanCode, type TimeRange } from '../text/time';

export const spanFamily = 'span_duration_seconds';

/** The pages of one service beside its heatmap, in the order of their tabs. */
export const serviceTabs = ['breakdown', 'operations', 'database', 'external', 'slow', 'sla'] as const;
export type ServiceTab = (typeof serviceTabs)[number];
export const tabNames: Record<ServiceTab, string> = { breakdown: 'Where time goes', operations: 'Operations', database: 'Database', external: 'External', slow: 'Slow requests', sla: 'SLA' };
export type Page = 'services' | 'service' | 'tenants' | 'compare' | 'sessions' | 'session' | 'checks' | 'check' | 'marks' | 'families' | 'family' | 'trace' | 'mark' | 'simulate' | 'scaling' | 'cluster' | ServiceTab;

export type Overlay = 'mean' | 'p50' | 'p95' | 'p99' | 'apdex' | 'yesterday' | 'week' | 'like';

export const overlays: Overlay[] = ['mean', 'p50', 'p95', 'p99', 'apdex', 'yesterday', 'week', 'like'];
export const defaultOverlays: Overlay[] = ['mean', 'p95', 'p99'];

export interface View {
  page: Page;
  /** The service's or the family's name, a trace's id; empty elsewhere. */
  name: string;
  range: TimeRange;
  live: boolean;
  /** Label filters. kind absent means the service's requests, kind: [] all kinds. */
  filters: Filters;
  axis: AxisKind;
  lo: number | null; // seconds, or the family's unit
  cap: number | null;
  scale: CountScale;
  show: Overlay[];
  /** A pinned moment, Unix seconds, and the value pointed at. */
  pin: number | null;
  at: number | null;
  /** Tables. */
  search: string;
  sort: string;
  offset: number;
  /** What single pages keep in the address besides: the keys of moreKeys; and mark, the id in the path of a mark. */
  more: Record<string, string[]>;
}

export const isTab = (page: Page): page is ServiceTab => (serviceTabs as readonly string[]).includes(page);

/** Whether the page moves: the log book does, others with a range that ends now. A comparison is asked again by its own Watch, and a trace is over. */
export const follows = (v: View) => v.page === 'sessions' || (v.page !== 'compare' && v.page !== 'trace' && v.page !== 'simulate' && 'last' in v.range);

/** Whether a range that nobody chose is narrowed to the time that has spans. */
export const fits = (v: View) => /^(services|service|breakdown|database|external|tenants)$/.test(v.page);

/** The sides of a comparison, and how it is shown. */
const compareKeys = ['by', 'a', 'b', 'mark', 'settle', 'window', 'label', 'days', 'like', 'family', 'per', 'within', 'level', 'allow', 'watch', 'tail'] as const;
/** The fields of a check that is being edited. */
export const draftKeys = ['expr', 'must', 'of', 'warn', 'crit', 'bad', 'good'] as const;
/** The fields of the form of a simulation. */
export const formKeys = ['takes', 'since', 'measured', 'nodes', 'shards', 'split', 'threads', 'cores', 'rate', 'arrivals', 'replicas', 'hedge', 'slownode', 'pause', 'lasts', 'cached', 'speed', 'neighbours', 'merge', 'price', 'asks', 'file', 'run'] as const;

/** Keys that only some pages read; each page decodes its own. */
export const moreKeys = ['period', 'tz', 'count', 'objective', 'under', 't', 'why', 'min', 'max', 'zoom', 'span', 'around', 'm',
  'tenant', 'cohort', 'notrare', 'slow', 'line', 'unit', 'time', 'above', 'low', 'high', 'measure', 'part', 'open', 'box', 'against', 'change', 'tab', 'candidate', 'setting', 'query', 'figure', 'state', 'kind', 'over', 'service', 'operation', 'order', 'xscale', 'idle', 'left', 'right', ...formKeys, ...draftKeys, ...compareKeys];

export const defaultRange: TimeRange = { last: 6 * 3600 };

export function home(): View {
  return {
    page: 'services', name: '', range: defaultRange, live: true, filters: {}, axis: 'log', lo: null, cap: null,
    scale: 'sqrt', show: [...defaultOverlays], pin: null, at: null, search: '', sort: '', offset: 0, more: {},
  };
}

const paths: Record<Exclude<Page, ServiceTab>, string> = { services: '/', service: '/services/', tenants: '/tenants', compare: '/compare', sessions: '/sessions', session: '/sessions/', checks: '/checks', check: '/checks/', marks: '/marks', families: '/families', family: '/families/', trace: '/traces/', mark: '/services/', simulate: '/simulate', scaling: '/scaling', cluster: '/cluster' };

/** The address of a view: path and query, no host. */
export function encode(v: View): string {
  const d = home();
  const q: string[] = [];
  const put = (key: string, val: string) => q.push(`${key}=${component(val)}`);
  if ('last' in v.range) {
    if (!('last' in d.range) || v.range.last !== d.range.last) put('range', spanCode(v.range.last));
  } else {
    put('start', String(v.range.start));
    put('end', String(v.range.end));
  }
  if (!v.live) put('live', '0');
  for (const name of Object.keys(v.filters).sort()) {
    if (v.filters[name].length === 0) put(`l.${name}`, '');
    for (const val of v.filters[name]) put(`l.${name}`, `=${val}`);
  }
  if (v.axis !== d.axis) put('axis', v.axis);
  if (v.lo != null) put('lo', String(v.lo));
  if (v.cap != null) put('cap', String(v.cap));
  if (v.scale !== d.scale) put('scale', v.scale);
  if (v.show.join() !== d.show.join()) put('show', v.show.join(',') || 'none');
  if (v.pin != null) put('pin', String(v.pin));
  if (v.at != null) put('at', String(v.at));
  if (v.search) put('q', v.search);
  if (v.sort) put('sort', v.sort);
  if (v.offset) put('offset', String(v.offset));
  for (const key of moreKeys) if (key !== 'mark' || v.page !== 'mark') for (const val of v.more[key] ?? []) put(key, val);
  const path = isTab(v.page) ? `${paths.service}${encodeURIComponent(v.name)}/${v.page}` : v.name ? paths[v.page] + encodeURIComponent(v.name) : paths[v.page];
  const whole = v.page === 'mark' ? `${path}/marks/${encodeURIComponent(v.more.mark?.[0] ?? '')}` : path;
  return q.length ? `${whole}?${q.join('&')}` : whole;
}

// Readable where an address allows it: {, / and : need no escaping in a query.
function component(s: string): string {
  return encodeURIComponent(s).replaceAll('%2F', '/').replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%3D', '=').replaceAll('%20', '+');
}

const plainKeys = ['range', 'start', 'end', 'live', 'axis', 'lo', 'cap', 'scale', 'show', 'pin', 'at', 'q', 'sort', 'offset'];
const labelKeys = ['service', 'environment', 'operation', 'component', 'kind', 'tenant', 'cohort', 'status', 'version', 'variant', 'instance'];
const firstSegments = [...new Set(Object.values(paths).map((path) => path.split('/')[1]))];

/** What of an address no page reads, and the nearest address that one does; undefined if all is read. */
export function misread(pathname: string, search: string): { text: string; to: string } | undefined {
  const [first, ...rest] = pathname.split('/').filter(Boolean);
  if (first && !firstSegments.includes(first)) {
    const near = nearest(first, firstSegments);
    return { text: `There is no page /${first}.`, to: near ? `/${[near, ...rest].join('/')}${search}` : '/' };
  }
  const q = new URLSearchParams(search);
  const { page } = decode(pathname, search);
  const wrong: string[] = [];
  const to = new URLSearchParams();
  for (const [key, value] of q) {
    const label = labelKeys.includes(key) && (!moreKeys.includes(key) || ((key === 'service' || key === 'operation') && page !== 'scaling'));
    const known = !label && (key.startsWith('l.') || plainKeys.includes(key) || moreKeys.includes(key));
    const near = label || known ? key : nearest(key, [...plainKeys, ...moreKeys]);
    if (!known) wrong.push(key);
    if (label) to.append(`l.${key}`, `=${value}`);
    else if (near) to.append(near, value);
  }
  if (page === 'compare' && q.has('mark') && q.get('by') !== 'mark') {
    wrong.push('mark');
    to.set('by', 'mark');
  }
  const ends = ['start', 'end'].filter((k) => q.has(k));
  const [start, end] = [moment(q.get('start')), moment(q.get('end'))];
  const badEnds = ends.length > 0 && !(start != null && end != null && end > start);
  if (badEnds) {
    for (const k of ends) to.delete(k);
    const back = /^now-(\w+)$/.exec(q.get('start') ?? '')?.[1];
    if (back && parseSpan(back) != null && /^(now)?$/.test(q.get('end') ?? '')) to.set('range', back);
  }
  if (!wrong.length && !badEnds) return undefined;
  const names = wrong.join(', ');
  const { pathname: path, search: rightly } = new URL(`${pathname}?${to}`, 'http://x');
  if (!wrong.length) return { text: `The address has ${ends.join(' and ')}, which this page reads as two Unix times, the earlier first. Without them it shows the last hours.`, to: encode(decode(path, rightly)) };
  return { text: page === 'compare' && names === 'mark' ? 'The address names a mark without by=mark.' : `The address has ${names}, which this page does not read.`, to: encode(decode(path, rightly)) };
}

/** The word that differs least, in at most two of five letters, ends left out. */
function nearest(word: string, words: string[]): string | undefined {
  const costs = words.map((w) => (w.startsWith(word) || word.startsWith(w) ? Math.abs(w.length - word.length) / 2 : edits(word, w)));
  const least = Math.min(...costs);
  return least <= 0.4 * Math.max(word.length, 3) ? words[costs.indexOf(least)] : undefined;
}

/** Levenshtein's distance. */
function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next.push(Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length];
}

/** The view of an address. What cannot be understood is left at its default. */
export function decode(pathname: string, search: string): View {
  const v = home();
  const q = new URLSearchParams(search);
  const segments = pathname.split('/').filter(Boolean);
  if (segments[0] === 'services' && segments.length > 1) {
    // A slash in a service's name is escaped, so what follows a bare one is a tab.
    const tab = segments.length > 2 ? (segments[segments.length - 1] as Page) : 'service';
    v.page = isTab(tab) ? tab : 'service';
    if (segments.length > 3 && segments[segments.length - 2] === 'marks') {
      v.page = 'mark';
      v.more.mark = [unescapePath(segments[segments.length - 1])];
    }
    v.name = unescapePath(segments.slice(1, v.page === 'service' ? undefined : v.page === 'mark' ? -2 : -1).join('/'));
  } else if (segments[0] === 'traces' && segments.length > 1) {
    v.page = 'trace';
    v.name = unescapePath(segments.slice(1).join('/'));
  } else if (segments[0] === 'sessions') {
    v.page = segments.length > 1 ? 'session' : 'sessions';
    v.name = unescapePath(segments.slice(1).join('/'));
  } else if (segments[0] === 'checks') {
    v.page = segments.length > 1 ? 'check' : 'checks';
    v.name = unescapePath(segments.slice(1).join('/'));
  } else if (segments[0] === 'families') {
    v.page = segments.length > 1 ? 'family' : 'families';
    v.name = unescapePath(segments.slice(1).join('/'));
  } else if (segments[0] === 'tenants' || segments[0] === 'compare' || segments[0] === 'marks' || segments[0] === 'simulate' || segments[0] === 'scaling' || segments[0] === 'cluster') {
    v.page = segments[0];
  }
  const last = parseSpan(q.get('range') ?? '');
  const start = moment(q.get('start'));
  const end = moment(q.get('end'));
  if (start != null && end != null && end > start) v.range = { start, end };
  else if (last != null) v.range = { last };
  v.live = q.get('live') !== '0';
  for (const key of new Set(q.keys())) {
    if (!key.startsWith('l.') || key.length < 3) continue;
    v.filters[key.slice(2)] = q.getAll(key).filter((s) => s.startsWith('=')).map((s) => s.slice(1));
  }
  if (q.get('axis') === 'linear') v.axis = 'linear';
  if (q.get('scale') === 'log') v.scale = 'log';
  v.lo = positive(q.get('lo'));
  v.cap = positive(q.get('cap'));
  if (v.lo != null && v.cap != null && v.lo >= v.cap) v.lo = null;
  const show = q.get('show');
  if (show != null) v.show = overlays.filter((o) => show.split(',').includes(o));
  v.pin = moment(q.get('pin'));
  v.at = positive(q.get('at'));
  v.search = q.get('q') ?? '';
  v.sort = q.get('sort') ?? '';
  const offset = Number(q.get('offset') ?? 0);
  v.offset = Number.isInteger(offset) && offset > 0 ? offset : 0;
  for (const key of moreKeys) if (q.has(key) && (key !== 'mark' || v.page !== 'mark')) v.more[key] = q.getAll(key);
  return v;
}

function unescapePath(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

function positive(s: string | null): number | null {
  const n = Number(s ?? NaN);
  return s && Number.isFinite(n) && n > 0 ? n : null;
}

function moment(s: string | null): number | null {
  const n = positive(s);
  return n != null && n < 1e11 ? Math.floor(n) : null;
}
