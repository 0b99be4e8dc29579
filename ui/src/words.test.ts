// Phrases that the page does not use, each with the one of docs/words.md that it does.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const src = dirname(fileURLToPath(import.meta.url));
const instead: [RegExp, string][] = [
  [/find and save/i, 'reads and writes'],
  [/slowest in a hundred|percentile/i, 'p99, or quantile'],
  [/no law (of|is)/i, 'Scaling: not fitted yet'],
  [/points of a hundred/i, 'percentage points'],
  [/nobody is told/i, 'no notifications'],
  [/\bsamples (are|inside|below)/i, 'requests, or observations'],
];
const wrongIn = (text: string) => instead.flatMap(([phrase, right]) => (phrase.test(text) ? [`${phrase.exec(text)?.[0]}: write ${right}`] : []));

test('the page keeps to the words of docs/words.md', () => {
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((f) => /\.(ts|svelte)$/.test(f) && !/\.test\.ts$|schema\.ts$/.test(f));
  expect(files.length).toBeGreaterThan(100);
  expect(files.flatMap((f) => wrongIn(readFileSync(join(src, f), 'utf8')).map((w) => `${f}: ${w}`))).toEqual([]);
});

test('a phrase that is not used is noticed', () => expect(wrongIn('<Stack title="Find and save" />')).toEqual(['Find and save: write reads and writes']));

test('docs/words.md has at most sixty lines of words', () => {
  const rows = readFileSync(join(src, '../../docs/words.md'), 'utf8').split('\n').filter((l) => /^\| (?!---|word \|)/.test(l));
  expect(rows.length).toBeGreaterThan(40);
  expect(rows.length).toBeLessThanOrEqual(60);
});
