import { expect, it } from 'vitest';
import { csvCell, markdownCell, serverFlag, utc } from './export';

it('quotes a cell where it needs it', () => {
  expect([csvCell('a b'), csvCell('a,b'), csvCell('say "x"'), csvCell('two\nlines'), csvCell(0.5), csvCell(null)]).toEqual(['a b', '"a,b"', '"say ""x"""', '"two\nlines"', '0.5', '']);
  expect(markdownCell('a|b\nc')).toBe('a\\|b c');
});

it('names a moment in UTC, and a server that is not the usual one', () => {
  expect([utc(0), utc(1.5)]).toEqual(['1970-01-01T00:00:00Z', '1970-01-01T00:00:01.500Z']);
  expect([serverFlag(''), serverFlag('http://127.0.0.1:7099'), serverFlag('https://x')]).toEqual([[], [], ['--server', 'https://x']]);
});
