// What the page asks of people about checks, as short forms, and where their
// answers go.

import { address, request } from '../shared/api/client';
import { toInput } from '../shared/text/time';

/** A question in a dialog: what is asked for, and who is told the answers. */
export interface Asked {
  title: string;
  note?: string;
  button: string;
  fields: { key: string; name: string; kind?: 'time'; value?: string; hint?: string; need?: string }[];
  /** Values by key; moments are Unix seconds, or undefined. What it throws is shown. */
  then: (values: Record<string, string>, times: Record<string, number | undefined>) => Promise<unknown>;
}

/** What is asked of somebody who marks a time as an incident. */
export const markQuestion = (start: number, end: number, of: { check?: string; service?: string }, then: () => void): Asked => ({
  title: 'Mark an incident', button: 'Mark it',
  note: `A time in which something was wrong, whether or not ${of.check ? 'this check' : 'a check'} saw it. Backtests are held against it.`,
  fields: [
    { key: 'name', name: 'What', need: 'Say what happened, such as “disk full”.', hint: 'disk full' },
    { key: 'start', name: 'From', kind: 'time', value: toInput(Math.floor(start)), need: 'Say when it began.' },
    { key: 'end', name: 'To', kind: 'time', value: toInput(Math.ceil(end)), need: 'Say when it was over.' },
    ...(of.check ? [] : [{ key: 'service', name: 'Service', value: of.service ?? '' }]),
  ],
  then: async ({ name, service }, { start, end }) => {
    await request('POST', '/api/v1/incidents', undefined, { name, start, end, ...(of.check ? { check: of.check } : {}), ...(service ? { service } : {}) });
    then();
  },
});

/** What is asked of somebody who begins maintenance, of one check or of several. */
export const maintenanceQuestion = (now: number, check: string, then: () => void): Asked => ({
  title: check ? `Maintenance of ${check}` : 'Add maintenance', button: 'Begin',
  note: 'Checks go on running and are stored; no notifications are sent.',
  fields: [
    { key: 'name', name: 'What', need: 'Say what is done, such as “upgrade”.', hint: 'upgrade' },
    ...(check ? [] : [{ key: 'checks', name: 'Checks', hint: 'names, with commas; none: all' }]),
    { key: 'start', name: 'From', kind: 'time', value: toInput(Math.floor(now)), need: 'Say when it begins.' },
    { key: 'end', name: 'To', kind: 'time', value: toInput(Math.floor(now) + 3600), need: 'Say when it is over.' },
    { key: 'user', name: 'By' },
  ],
  then: async ({ name, checks, user }, { start, end }) => {
    const of = check ? [check] : (checks ?? '').split(',').map((s) => s.trim()).filter(Boolean);
    await request('POST', '/api/v1/maintenance', undefined, { name, checks: of, start, end, ...(user ? { user } : {}) });
    then();
  },
});

/** What is asked of somebody who takes care of a check. */
export const ackQuestion = (id: string, then: () => void): Asked => ({
  title: `Acknowledge ${id}`, button: 'Acknowledge',
  note: 'Receivers are told once that somebody takes care of it, then no more until it is OK.',
  fields: [
    { key: 'user', name: 'By', need: 'Say who takes care of it.' },
    { key: 'comment', name: 'Comment', hint: 'optional: what is done' },
    { key: 'until', name: 'At most until', kind: 'time' },
  ],
  then: async ({ user, comment }, { until }) => {
    await request('POST', address('check/acknowledge', { id }), undefined, { user, comment, until: until ?? null });
    then();
  },
});
