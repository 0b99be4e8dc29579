// The rooms of the page. A room has its pages, their parts and their data; what
// several rooms use lies in shared. Files beside the rooms put them together.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const src = dirname(fileURLToPath(import.meta.url));
const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((f) => /\.(ts|svelte)$/.test(f)).map((f) => f.replaceAll('\\', '/'));
const known = new Set(files);

/** What a file imports of the others, types and scripts that come later too. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), 'utf8');
  return [...text.matchAll(/\b(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].flatMap(([, path]) => {
    const to = relative(src, join(src, dirname(file), path)).replaceAll('\\', '/');
    const found = [to, `${to}.ts`].find((f) => known.has(f));
    if (!found && !to.startsWith('..') && !to.endsWith('.css')) throw new Error(`${file} imports ${path}, which is not there`);
    return found ? [found] : [];
  });
}

const graph = new Map(files.map((f) => [f, importsOf(f)]));
const roomOf = (file: string) => (file.includes('/') ? file.slice(0, file.indexOf('/')) : '');

test('a room imports itself and shared, no other room and nothing beside them', () => {
  const wrong = [...graph].flatMap(([file, to]) => (roomOf(file) ? to.filter((t) => ![roomOf(file), 'shared'].includes(roomOf(t))).map((t) => `${file} imports ${t}`) : []));
  expect(wrong).toEqual([]);
});

test('no import leads back to where it began', () => {
  const done = new Set<string>();
  const circles: string[] = [];
  const walk = (file: string, way: string[]) => {
    if (way.includes(file)) circles.push([...way.slice(way.indexOf(file)), file].join(' > '));
    else if (!done.has(file)) {
      for (const t of graph.get(file) ?? []) walk(t, [...way, file]);
      done.add(file);
    }
  };
  for (const f of files) walk(f, []);
  expect(circles).toEqual([]);
});
