import { describe, expect, it } from 'vitest';
import { find, longestWord, match, pieces, type Entry } from './palette';

/** The text with what matches in brackets; empty if nothing does. */
const marked = (typed: string, text: string) => {
  const m = match(typed, text);
  return m ? pieces(text, m.at).map((p) => (p.on ? `[${p.text}]` : p.text)).join('') : '';
};

describe('match', () => {
  it.each([
    ['check', 'checkout', '[check]out'],
    ['OUT', 'checkout', 'check[out]'],
    ['chkout', 'checkout', '[ch]ec[kout]'],
    ['wtg', 'Where time goes', '[W]here [t]ime [g]oes'],
    ['cart get', 'GET /cart/{id}', '[GET] /[cart]/{id}'],
    ['oc', 'orderCreate', '[o]rder[C]reate'],
    ['', 'anything', 'anything'],
    ['cat', 'Compare two sides', ''],
    ['dbs', 'database', ''],
    ['cart post', 'GET /cart/{id}', ''],
    ['checkouts', 'checkout', ''],
  ])('%s in %s', (typed, text, want) => expect(marked(typed, text)).toBe(want));

  it('holds every letter of what is typed, in its order', () => {
    let seed = 7;
    const next = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    const random = (n: number) => Array.from({ length: n }, () => 'ab c-'[next(5)]).join('');
    let matched = 0;
    for (let i = 0; i < 1000; i++) {
      const [word, text] = [random(1 + next(4)).replaceAll(' ', 'a'), random(next(14))];
      const m = match(word, text);
      if (text.includes(word)) expect(m, `${word} in ${text}`).toBeDefined();
      if (!m) continue;
      matched++;
      expect(m.at.map((k) => text[k]).join('')).toBe(word);
      expect(m.at).toEqual([...new Set(m.at)].sort((a, b) => a - b));
    }
    expect(matched).toBeGreaterThan(100);
  });
});

describe('find', () => {
  const entries: Entry[] = [
    { group: 'Pages', name: 'Checks', to: '/checks' }, { group: 'Pages', name: 'Compare two sides', to: '/compare' },
    { group: 'Commands', name: 'Last 1 h', also: 'range hour' }, { group: 'Commands', name: 'Dark', also: 'theme' },
    { group: 'Services', name: 'recheck', to: '/services/recheck' }, { group: 'Services', name: 'checkout', to: '/services/checkout' },
    { group: 'Checks', name: 'checkout p99', to: '/checks/x' },
  ];
  const names = (typed: string, most?: number) => find(typed, entries, most).map((g) => `${g.group}: ${g.found.map((f) => f.name).join(', ')}`);

  it.each([
    ['', ['Pages: Checks, Compare two sides', 'Services: recheck, checkout', 'Commands: Last 1 h, Dark', 'Checks: checkout p99']],
    ['check', ['Pages: Checks', 'Services: checkout, recheck', 'Checks: checkout p99']],
    ['checkout', ['Services: checkout', 'Checks: checkout p99']],
    ['last hour', ['Commands: Last 1 h']],
    ['theme', ['Commands: Dark']],
    ['nowhere', []],
  ])('%s', (typed, want) => expect(names(typed)).toEqual(want));

  it('keeps the best of each group', () => expect(names('check', 1)).toEqual(['Pages: Checks', 'Services: checkout', 'Checks: checkout p99']));
  it('lights no letter beyond the name', () => expect(pieces('Dark', find('theme', entries)[0].found[0].at)).toEqual([{ text: 'Dark', on: false }]));
});

it('asks the server for the longest word', () => expect(['', 'a', 'get /cart', ' deploy 1.4 '].map(longestWord)).toEqual(['', 'a', '/cart', 'deploy']));
