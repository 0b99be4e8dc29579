// What became of every copy, as an account that visibly sums up, and rates made
// of two looks at the same counts.

import type { MirrorAccount, MirrorState } from '../shared/api/schema';
import type { Counts } from '../shared/api/types';
import { total } from '../shared/text/format';

/** Why something was not mirrored, dropped, failed or not compared, in words. */
export const causeWords: Record<string, string> = {
  share: 'outside the share', method: 'method not chosen', path: 'path not chosen', header: 'header not chosen', upgrade: 'upgrade', length: 'body too large',
  unsafe: 'unsafe method', connect: 'CONNECT', paused: 'paused', key: 'without the key',
  queue_full: 'queue full', buffer_full: 'buffer full', no_server: 'no server in use', refused: 'refused', connect_time: 'no connection in time', handshake: 'handshake failed',
  expired: 'waited too long in the queue', stopped: 'stopped', body_limit: 'body too large', body_behind: 'body outran the buffer', client_gone: 'client broke off',
  reset: 'connection reset', timeout: 'timed out', timed_out: 'timed out', bad_answer: 'not HTTP', answer_limit: 'answer too large',
  too_long: 'too long to compare', behind: 'comparing was behind', undecodable: 'not decodable',
};

export const causeName = (c: string) => causeWords[c] ?? c.replaceAll('_', ' ');

/** Causes in an order that does not change as counts grow: by name. */
export const causes = (all: (Counts | undefined)[]): string[] => [...new Set(all.flatMap((c) => Object.keys(c ?? {}).filter((k) => (c ?? {})[k] > 0)))].sort((a, b) => causeName(a).localeCompare(causeName(b)));

export interface LedgerRow {
  /** What the row is of: the same from one look to the next. */
  key: string;
  name: string;
  /** A sum, what it loses, or what is on its way now. */
  kind: 'sum' | 'lost' | 'now';
  of: (a: MirrorAccount) => number;
}

const lost = (group: 'dropped' | 'failed', c: string): LedgerRow => ({ key: `${group} ${c}`, name: `${group}: ${causeName(c)}`, kind: 'lost', of: (a) => (a[group] ?? {})[c] ?? 0 });

/** The rows of the accounts side by side: from each sum its losses lead to the next. */
export function ledger(accounts: MirrorAccount[]): LedgerRow[] {
  const now = (key: 'queued' | 'waiting' | 'pairing', name: string): LedgerRow => ({ key, name, kind: 'now', of: (a) => a[key] });
  const sum = (key: 'offered' | 'mirrored' | 'answered' | 'paired', name: string): LedgerRow => ({ key, name, kind: 'sum', of: (a) => a[key] });
  return [
    sum('offered', 'Offered'),
    ...causes(accounts.map((a) => a.dropped)).map((c) => lost('dropped', c)),
    now('queued', 'in the queue now'),
    sum('mirrored', 'Mirrored'),
    ...causes(accounts.map((a) => a.failed)).map((c) => lost('failed', c)),
    now('waiting', 'waiting for the answer now'),
    sum('answered', 'Answered'),
    { key: 'unpaired', name: 'unpaired: the primary’s answer was not whole', kind: 'lost', of: (a) => a.unpaired },
    now('pairing', 'waiting for the primary now'),
    sum('paired', 'Paired'),
  ];
}

/** By how much each of the three sums fails to close; all zero, always. */
export function gaps(a: MirrorAccount): number[] {
  return [a.offered - a.queued - total(a.dropped) - a.mirrored, a.mirrored - a.waiting - total(a.failed) - a.answered, a.answered - a.pairing - a.paired - a.unpaired];
}

/** The copies as one bar: what came to a pair, what is on its way, what was lost. */
export function parts(a: MirrorAccount): { key: 'paired' | 'unpaired' | 'way' | 'failed' | 'dropped'; name: string; n: number }[] {
  return [
    { key: 'paired', name: 'paired', n: a.paired },
    { key: 'way', name: 'on their way', n: a.queued + a.waiting + a.pairing },
    { key: 'unpaired', name: 'unpaired', n: a.unpaired },
    { key: 'failed', name: 'failed', n: total(a.failed) },
    { key: 'dropped', name: 'dropped', n: total(a.dropped) },
  ];
}

/** Requests that were chosen: the others have a reason. */
export const chosen = (m: MirrorState) => m.requests - total(m.skipped);

/** All counts of a state by name, for their rates. */
export function countsOf(m: MirrorState): Record<string, number> {
  const out: Record<string, number> = { requests: m.requests, chosen: chosen(m) };
  const put = (prefix: string, c: Counts | undefined) => {
    for (const [k, n] of Object.entries(c ?? {})) out[`${prefix} ${k}`] = n;
  };
  put('skipped', m.skipped);
  put('failed', m.failed);
  for (const s of m.shadows) if (s.account) for (const row of ledger([s.account])) if (row.kind !== 'now') out[`${s.name}/${row.key}`] = row.of(s.account);
  return out;
}

/** Rates per second over the last looks. */
export class Rates {
  private looks: { t: number; counts: Record<string, number> }[] = [];
  constructor(readonly seconds = 10) {}

  /** Takes a look at moment t, Unix seconds; one at the same moment counts once, an earlier one begins anew. */
  look(t: number, counts: Record<string, number>): void {
    const last = this.looks[this.looks.length - 1];
    if (last && t === last.t) return;
    if (last && t < last.t) this.looks = [];
    this.looks.push({ t, counts });
    while (this.looks.length > 2 && this.looks[1].t <= t - this.seconds) this.looks.shift();
  }

  /** Per second, null until there are two looks a second apart. */
  of(key: string): number | null {
    const [a, b] = [this.looks[0], this.looks[this.looks.length - 1]];
    if (!a || b.t - a.t < 0.9) return null;
    return Math.max(0, ((b.counts[key] ?? 0) - (a.counts[key] ?? 0)) / (b.t - a.t));
  }
}

/** A rate whose width does not jump: no decimals from ten on. */
export function steadyRate(r: number | null | undefined): string {
  if (r == null) return '–';
  if (r === 0) return '0';
  if (r < 0.05) return '< 0.1';
  return r < 9.95 ? r.toFixed(1) : Math.round(r).toLocaleString('en-US');
}
