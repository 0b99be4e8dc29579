import { describe, expect, it } from 'vitest';
import { besidesOf, decodeBeside, encodeBeside, findFamilies, suitingLabel, type Beside } from './beside';

describe('metrics beside', () => {
  it('round-trip through the address', () => {
    const all: Beside[] = [
      { family: 'go_gc_pause_seconds', per: false, by: undefined, filters: {} },
      { family: 'process_cpu_time_seconds_total', per: true, by: 'instance', filters: {} },
      { family: 'go_gc_pause_seconds', per: false, heat: true, by: undefined, filters: { instance: ['a'] } },
      { family: 'x', per: true, by: '', filters: { instance: ['a;b', 'c=d'], 'k@/': ['100 %', ''] } },
    ];
    for (const b of all) expect(decodeBeside(encodeBeside(b))).toEqual(b);
    expect(encodeBeside(all[1])).toBe('process_cpu_time_seconds_total/request@instance');
  });
  it('leave out what is none', () => {
    expect(decodeBeside('')).toBeUndefined();
    expect(decodeBeside('a/b')).toBeUndefined();
    expect(besidesOf({ m: ['a', '/request', 'b;i=1'] }).map((b) => b.family)).toEqual(['a', 'b']);
    expect(besidesOf({})).toEqual([]);
  });
  it('are found by words, the process before the rest', () => {
    const f = (name: string) => ({ name, kind: 'gauge' as const });
    const all = ['http_client_active', 'process_memory_bytes', 'span_duration_seconds', 'app_memory_cache'].map(f);
    expect(findFamilies(all, '', 9).map((x) => x.name)).toEqual(['process_memory_bytes', 'app_memory_cache', 'http_client_active']);
    expect(findFamilies(all, 'memory', 9).map((x) => x.name)).toEqual(['process_memory_bytes', 'app_memory_cache']);
    expect(findFamilies(all, 'mem cache', 9).map((x) => x.name)).toEqual(['app_memory_cache']);
  });
  it('are split by the label that tells a few apart', () => {
    expect(suitingLabel([{ name: 'service', total: 3 }, { name: 'pod', total: 40 }, { name: 'instance', total: 2 }, { name: 'zone', total: 1 }], 6)).toBe('instance');
    expect(suitingLabel([], 6)).toBe('');
  });
});
