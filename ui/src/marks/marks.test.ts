import { expect, it } from 'vitest';
import { leadsTo } from '../shared/verdict/marks';
import { changedRows, chosen, groupsOf, leadFirst, servicesOf } from './marks';
import type { CompareMeasure, CompareRow, Mark, MarkGroup, MarkVerdict } from '../shared/api/schema';

const verdict = (v: Partial<MarkVerdict>): MarkVerdict => ({ state: 'final', judged: 1, first: 1, step: 10, next: null, window: 3600, services: [], ...v });

it('filters by service and words, the newest first', () => {
  const marks: Mark[] = [
    { id: '1', time: 10, name: 'deploy', service: 'shop', verdict: verdict({ verdict: 'regression' }) },
    { id: '2', time: 30, name: 'kernel' }, { id: '3', time: 20, name: 'deploy', service: 'bank' },
  ];
  const ids = (service: string, search: string) => chosen(marks, service, search).map((m) => m.id);
  expect(ids('', '')).toEqual(['2', '3', '1']);
  expect(ids('shop', '')).toEqual(['2', '1']);
  expect(ids('', 'Regression  deploy')).toEqual(['1']);
  expect(servicesOf(marks)).toEqual(['bank', 'shop']);
  expect([leadsTo(marks[0]), leadsTo(marks[1]), leadsTo(marks[1], 'bank')]).toEqual(['shop', '', 'bank']);
});

it('chooses groups as it chooses marks, at most five', () => {
  const groups = ['backup', 'backup', 'deploy', 'reload', 'flush', 'vacuum', 'kernel'].map((name, i) => ({ name, service: i === 1 ? 'bank' : 'shop' }) as MarkGroup);
  expect(groupsOf(groups, '').length).toBe(5);
  expect(groupsOf(groups, 'BACKUP bank')).toEqual([groups[1]]);
});

it('shows what the sentence begins with, and of each row what it tells', () => {
  const measure = (name: string, change: CompareMeasure['change'], of: string, p = 0.001) => ({ name, change, adjusted_p: p, sentence: `${name} of ${of} is other` }) as CompareMeasure;
  const row = (operation: string, ...measures: CompareMeasure[]) => ({ operation, measures }) as CompareRow;
  const sentence = 'P95 of shop is other; of its operations most of all p99 of GET /a is other';
  const rows = [
    row('GET /a', measure('p50', 'worse', 'GET /a'), measure('p99', 'worse', 'GET /a'), measure('rate', undefined, 'GET /a')),
    row('GET /b', measure('p50', 'better', 'GET /b'), measure('p99', 'worse', 'GET /b'), measure('errors', 'better', 'GET /b')),
    row('GET /c', measure('p99', 'better', 'GET /c'), measure('errors', 'better', 'GET /c')),
    row('GET /d', measure('p99', 'worse', 'GET /d', 0.02)),
  ];
  expect(changedRows(rows, sentence).map(({ row, m }) => `${row.operation} ${m.name}`)).toEqual(['GET /a p99', 'GET /b p99', 'GET /c p99']);
  const measures = [measure('p50', 'worse', 'shop'), measure('p95', 'worse', 'shop'), measure('errors', undefined, 'shop')];
  expect(leadFirst({ measures, sentence }).map((m) => m.name)).toEqual(['p95', 'p50', 'errors']);
  expect(leadFirst({ measures, sentence: 'no evidence' })).toEqual(measures);
});
