// What the palette finds: pages, commands and names, ranked by how well they match
// what is typed. Pure.

/** In the order in which they stand where they match alike. Those from Tenants on come from the server a moment later and stand below the rest. */
export const groups = ['Pages', 'Services', 'Operations', 'Commands', 'Tenants', 'Marks', 'Checks'] as const;
export type Group = (typeof groups)[number];
const late = groups.indexOf('Tenants');

export interface Entry {
  group: Group;
  name: string;
  /** What stands beside the name. */
  note?: string;
  /** Other words it is found by. */
  also?: string;
  /** The key that does the same. */
  key?: string;
  /** The address it opens. */
  to?: string;
  /** What it does, where it opens nothing. */
  act?: () => void;
}

export interface Match {
  score: number;
  /** The letters that match, by their places. */
  at: number[];
}

export interface Found extends Entry {
  at: number[];
}

const begins = (s: string, i: number) => i === 0 || (/[a-z0-9]/i.test(s[i]) && (!/[a-z0-9]/i.test(s[i - 1]) || (/[a-z]/.test(s[i - 1]) && /[A-Z]/.test(s[i]))));

/**
 * Matches one word: its letters in their order, best at the beginnings of words and one
 * after the other. A word whose letters are scattered does not match, one that is a part
 * of the text does.
 */
function matchWord(word: string, text: string): Match | undefined {
  const [w, t] = [word.toLowerCase(), text.toLowerCase()];
  // best[i][j] is the score of the first i + 1 letters, the last of them at j.
  const best: number[][] = [];
  const from: number[][] = [];
  for (let i = 0; i < w.length; i++) {
    best.push(new Array<number>(t.length).fill(-Infinity));
    from.push(new Array<number>(t.length).fill(-1));
    // The best of the row above, less a point for each letter passed over, and where it is.
    let reach = -Infinity;
    let at = -1;
    for (let j = 0; j < t.length; j++) {
      if (i > 0 && j > 1) {
        reach--;
        if (best[i - 1][j - 2] - 1 > reach) [reach, at] = [best[i - 1][j - 2] - 1, j - 2];
      }
      if (t[j] !== w[i]) continue;
      const own = j === 0 ? 8 : begins(text, j) ? 6 : 0;
      if (i === 0) best[i][j] = own;
      else {
        const next = j > 0 ? best[i - 1][j - 1] + 4 : -Infinity;
        best[i][j] = own + Math.max(next, reach);
        from[i][j] = next >= reach ? j - 1 : at;
      }
    }
  }
  const row = best[w.length - 1];
  let end = 0;
  for (let j = 1; j < row.length; j++) if (row[j] > row[end]) end = j;
  const score = row[end] ?? -Infinity;
  if (score === -Infinity || (score < 3 * w.length && !t.includes(w))) return undefined;
  const at: number[] = [];
  for (let i = w.length - 1, j = end; i >= 0; j = from[i][j], i--) at.unshift(j);
  return { score: score / w.length, at };
}

/** How well a text matches: each word of what is typed by itself, in any order; undefined if one of them does not. */
export function match(typed: string, text: string): Match | undefined {
  const out: Match = { score: -text.length / 100, at: [] };
  for (const word of typed.split(/\s+/).filter(Boolean)) {
    const m = matchWord(word, text);
    if (!m) return undefined;
    out.score += m.score;
    out.at.push(...m.at);
  }
  return out;
}

/** The longest word of what is typed, which the server is asked for. */
export const longestWord = (typed: string): string => typed.split(/\s+/).reduce((a, b) => (b.length > a.length ? b : a), '');

/** The entries that match, by group, the best first: of each group at most so many. */
export function find(typed: string, entries: Entry[], most = 6): { group: Group; found: Found[] }[] {
  const scored = entries.flatMap((e) => {
    const m = match(typed, e.also ? `${e.name} ${e.also}` : e.name);
    return m ? [{ e, m }] : [];
  });
  const out = groups.flatMap((group, i) => {
    const own = scored.filter((s) => s.e.group === group);
    if (typed.trim()) own.sort((a, b) => b.m.score - a.m.score);
    return own.length ? [{ group, rank: i < late ? 0 : 1, best: own[0].m.score, found: own.slice(0, most).map(({ e, m }) => ({ ...e, at: m.at })) }] : [];
  });
  if (typed.trim()) out.sort((a, b) => a.rank - b.rank || b.best - a.best);
  return out;
}

/** A name in pieces, those that match apart from the others. */
export function pieces(name: string, at: number[]): { text: string; on: boolean }[] {
  const out: { text: string; on: boolean }[] = [];
  for (let i = 0; i < name.length; i++) {
    const on = at.includes(i);
    const last = out[out.length - 1];
    if (last?.on === on) last.text += name[i];
    else out.push({ text: name[i], on });
  }
  return out;
}
