import { expect, it } from 'vitest';
import { leadsTo } from '../shared/verdict/marks';
import { chosen, groupsOf, servicesOf } from './marks';
import type { Mark, MarkGroup, MarkVerdict } from '../shared/api/schema';

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
