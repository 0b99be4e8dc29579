import { expect, test } from 'vitest';
import type { Act } from '../shared/api/schema';
import { askIn, minute, named, sameRun, when } from './acts';

const t = Date.UTC(2026, 10, 20, 10, 0) / 1000;
const act = (name: string, state: Act['state'], at: number, more: Partial<Act> = {}): Act => ({ name, text: '', state, at, end: null, page: `/${name}`, ...more });

test.each([
  ['what comes has its time', act('backup', 'comes', t + 150), t, 'at 10:02'],
  ['which is the same later', act('backup', 'comes', t + 150), t + 80, 'at 10:02'],
  ['what comes within a minute is not counted down', act('backup', 'comes', t + 30), t, 'at any moment'],
  ['what is overdue comes at any moment', act('backup', 'comes', t - 30), t, 'at any moment'],
  ['what runs says since when', act('mirror', 'runs', t + 61), t + 200, 'since 10:01'],
  ['what is over says when it was', act('index', 'done', t), t + 200, 'at 10:00'],
  ['what failed says when it was', act('index', 'failed', t), t + 200, 'at 10:00'],
])('%s', (_, a, now, want) => expect(when(a, now, 'UTC')).toBe(want));

test('minutes have no seconds', () => expect(minute(t + 59.7, 'UTC')).toBe('10:00'));

test('the line names what runs and what is next', () => {
  const done = act('index', 'done', t);
  const comes = act('backup', 'comes', t + 60);
  const later = act('mirror', 'comes', t + 120);
  const names = (acts: Act[]) => named(acts).map((x) => `${x.lead} ${x.act.name}`);
  expect(names([done, comes, later])).toEqual(['Next backup']);
  expect(names([done, { ...comes, state: 'runs' }, later])).toEqual(['Now backup', 'Next, unless this takes longer mirror']);
  expect(names([done])).toEqual([]);
});

test.each([
  ['often while something runs', [act('mirror', 'runs', t)], 5],
  ['when the next act begins', [act('backup', 'comes', t + 20)], 21],
  ['when the next act begins, however late that is', [act('backup', 'comes', t - 20)], 2],
  ['each quarter of a minute while a verdict is to come', [act('index', 'done', t - 60), act('backup', 'comes', t + 200)], 15],
  ['each quarter of a minute while more is to come of a verdict', [act('index', 'done', t - 60, { verdict: 'so far: Faster' }), act('backup', 'comes', t + 200)], 15],
  ['each minute else', [act('index', 'done', t - 60, { verdict: 'Faster' }), act('backup', 'comes', t + 200)], 60],
])('asks %s', (_, acts, want) => expect(askIn(acts, t)).toBe(want));

test('hidden is the run, not the next one', () => {
  const acts = [act('index', 'comes', t)];
  expect(sameRun(acts, String(t - 2))).toBe(true); // begun a moment later than planned
  expect(sameRun(acts, String(t - 86400))).toBe(false);
  expect(sameRun(acts, null)).toBe(false);
});
