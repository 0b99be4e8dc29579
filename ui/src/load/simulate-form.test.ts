import { describe, expect, it } from 'vitest';
import { fileOf, formDefaults, formOf, unsaid, varied, yamlWord } from './simulate-form';

const form = (more: Record<string, string>) => formOf(Object.fromEntries(Object.entries(more).map(([k, v]) => [k, [v]])));

describe('the form of a simulation', () => {
  it('writes the file that it stands for', () => {
    expect(fileOf(form({ service: 'solr', operation: 'GET /select', since: '2h', threads: '2', rate: '30', split: 'both', hedge: 'p95', replicas: '2', slownode: '1 × 3', pause: '30s', cached: '30%', price: '0.4', merge: '50us' }))).toBe(`simulate: solr by nodes
leaves:
  - from: {service: solr, operation: GET /select, since: 2h}
layout:
  shards: 16
  threads: 2
  replicas: 2
  rate: 30
  slow: {nodes: 1, times: 3}
  pause: {every: 30s, lasts: 200ms}
  hedge: {quantile: p95, cancel: yes}
  cache: {queries: 30%}
  aggregator: {after: {leaf: 50us}}
  price: 0.4
layouts:
  - {name: binary, split: binary}
  - {name: arbitrary, split: arbitrary}
vary: {nodes: 1..16}
`);
    expect(fileOf(form({ takes: '5 ms', nodes: '8', shards: '8, 16,32', arrivals: 'closed', rate: '20', asks: 'p95' }))).toBe(`simulate: leaves by shards
asks: p95
leaves:
  - from: {takes: 5ms}
layout:
  nodes: 8
  arrivals: closed
  users: 20
vary: {shards: [8, 16, 32]}
`);
  });

  it('says what is missing before anything is asked', () => {
    expect(unsaid(form({}))).toContain('what a leaf takes');
    expect(unsaid(form({ service: 'a' }))).toContain('how many queries');
    expect(unsaid(form({ service: 'a', rate: '3' }))).toBeUndefined();
    expect(unsaid(form({ service: 'a', rate: '3', shards: '4, 8' }))).toContain('Only one can be varied, and nodes and shards');
    expect(unsaid(form({ service: 'a', rate: '3', hedge: 'p95' }))).toContain('set replicas to 2');
    expect(unsaid(form({ service: 'a', rate: '3', nodes: '' }))).toContain('how many nodes');
    expect(varied(form({ nodes: '4' }))).toBeUndefined();
  });

  it('quotes what YAML would read as something else', () => {
    expect(['solr', 'GET /select', 'a: b', 'yes', '42', 'say "x"', '{id}', 'two words'].map(yamlWord)).toEqual(['solr', 'GET /select', '"a: b"', '"yes"', '"42"', '"say \\"x\\""', '"{id}"', 'two words']);
  });

  it('keeps every field in the address', () => {
    expect(new Set(Object.keys(formDefaults)).size).toBe(Object.keys(formDefaults).length);
    expect(formOf({}).nodes).toBe('1..16');
  });
});
