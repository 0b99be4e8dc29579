import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ownFamilies } from './families';

it('every family that the server makes for itself is named', () => {
  const source = readFileSync(new URL('../../../../internal/series/series.go', import.meta.url), 'utf8');
  const made = [...source.matchAll(/^\t(?:Breakdown\w+|SpanSelf|ClockSkew)\s*=\s*"(\w+)"/gm)].map((m) => m[1]);
  expect(made.length).toBeGreaterThan(8);
  expect(Object.keys(ownFamilies).sort()).toEqual(made.sort());
});
