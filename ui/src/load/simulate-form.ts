// The form of a simulation: its fields, as they stand in the address, and the file
// of words that they make. What a field leaves empty is left to the simulation.

import { formKeys } from '../shared/page/url';

/** Fields with what they are unless said otherwise. An edited file stands in file. */
export const formDefaults: Record<FormKey, string> = {
  takes: '', since: '', measured: '', nodes: '1..16', shards: '16', split: 'given', threads: '', cores: '', rate: '', arrivals: 'poisson', replicas: '', hedge: '', slownode: '', pause: '', lasts: '', cached: '', speed: '', neighbours: '', merge: '', price: '', asks: 'p99', file: '', run: '',
};

export type FormKey = (typeof formKeys)[number];
export type Form = Record<FormKey | 'service' | 'operation', string>;

export function formOf(more: Record<string, string[]>): Form {
  const of = (k: string, is: string) => more[k]?.[0] ?? is;
  return { ...Object.fromEntries(formKeys.map((k) => [k, of(k, formDefaults[k])])), service: of('service', ''), operation: of('operation', '') } as Form;
}

/** A word of YAML, quoted where it would be read as anything else. */
export function yamlWord(s: string): string {
  return /^[A-Za-z_][\w./-]*( [\w./-]+)*$/.test(s) && !/^(true|false|yes|no|null|on|off|~)$/i.test(s) ? s : `"${s.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;
}

/** Whether a field lists several values or a range of them: 1..16, 1, 2, 4. */
export const several = (s: string): boolean => /\.\.|,/.test(s);

const list = (s: string): string => (/\.\./.test(s) ? s.trim() : `[${s.split(',').map((x) => x.trim()).filter(Boolean).join(', ')}]`);

/** Which of the fields is varied: the first that lists several. */
export const varied = (f: Form): 'nodes' | 'shards' | 'threads' | 'rate' | undefined => (['nodes', 'shards', 'threads', 'rate'] as const).find((k) => several(f[k]));

/** What a form does not say and must: a sentence, undefined if it can be asked. */
export function unsaid(f: Form): string | undefined {
  if (!f.service.trim() && !f.takes.trim()) return 'Say what a leaf takes: a service whose requests are leaves, or a time such as 5ms.';
  const many = (['nodes', 'shards', 'threads', 'rate'] as const).filter((k) => several(f[k]));
  if (many.length > 1) return `Only one can be varied, and ${many.join(' and ')} both list several values.`;
  if (!f.nodes.trim()) return 'Say how many nodes there are: 8, or 1..16 for every number.';
  if (!f.shards.trim()) return 'Say in how many shards the data is.';
  if (f.hedge.trim() && !/^\s*[2-9]|\d{2}/.test(f.replicas)) return 'A second request needs a second copy of the shard: set replicas to 2.';
  if (f.arrivals !== 'closed' && !f.rate.trim()) return 'Say how many queries come a second.';
  return undefined;
}

/** 3 of 1x: nodes that are slower, and by how much: "1 × 3" or "1". */
function slowOf(s: string): string | undefined {
  const m = /^\s*(\d+)\s*(?:[x×*,]\s*(\d+(?:\.\d+)?))?\s*$/.exec(s);
  return m ? `{nodes: ${m[1]}, times: ${m[2] ?? 2}}` : undefined;
}

/** The file that the form stands for. */
export function fileOf(f: Form): string {
  const key = varied(f);
  const from = f.service.trim()
    ? [`service: ${yamlWord(f.service.trim())}`, f.operation.trim() && `operation: ${yamlWord(f.operation.trim())}`, f.since.trim() && `since: ${f.since.trim()}`, f.measured.trim() && `shards: ${f.measured.trim()}`]
    : [`takes: ${/[{:]/.test(f.takes) ? f.takes.trim() : yamlTime(f.takes.trim())}`];
  const layout: [string, string][] = [];
  const put = (k: string, v: string | undefined) => {
    if (v?.trim()) layout.push([k, v.trim()]);
  };
  for (const k of ['nodes', 'shards', 'threads'] as const) if (k !== key) put(k, f[k]);
  if (f.split === 'binary' || f.split === 'arbitrary') put('split', f.split);
  for (const k of ['cores', 'replicas'] as const) put(k, f[k]);
  if (key !== 'rate') put('rate', f.arrivals === 'closed' ? '' : f.rate);
  if (f.arrivals !== 'poisson') put('arrivals', f.arrivals);
  if (f.arrivals === 'closed') put('users', f.rate || '10');
  put('speed', f.speed);
  put('neighbours', f.neighbours);
  put('slow', f.slownode.trim() ? (slowOf(f.slownode) ?? f.slownode) : '');
  put('pause', f.pause.trim() ? `{every: ${f.pause.trim()}, lasts: ${f.lasts.trim() || '200ms'}}` : '');
  put('hedge', f.hedge.trim() ? (/^p/.test(f.hedge.trim()) ? `{quantile: ${f.hedge.trim()}, cancel: yes}` : `{after: ${f.hedge.trim()}, cancel: yes}`) : '');
  put('cache', f.cached.trim() ? `{queries: ${f.cached.trim()}}` : '');
  put('aggregator', f.merge.trim() ? `{after: {leaf: ${f.merge.trim()}}}` : '');
  put('price', f.price);
  const what = f.service.trim() || 'leaves';
  return [
    `simulate: ${yamlWord(`${what} by ${key ?? 'layout'}`)}`,
    ...(f.asks !== 'p99' ? [`asks: ${f.asks}`] : []),
    'leaves:',
    `  - from: {${from.filter(Boolean).join(', ')}}`,
    'layout:',
    ...layout.map(([k, v]) => `  ${k}: ${v}`),
    ...(f.split === 'both' ? ['layouts:', '  - {name: binary, split: binary}', '  - {name: arbitrary, split: arbitrary}'] : []),
    ...(key ? [`vary: {${key}: ${list(f[key])}}`] : []),
    '',
  ].join('\n');
}

const yamlTime = (s: string) => s.replace(/\s+/g, '');
