// What the copy buttons of a session give: the judgement, the account.

import type { Session } from '../shared/api/schema';
import { csvCell, serverFlag } from '../shared/text/export';
import { chosen, ledger } from './account';
import { shellQuote } from '../shared/page/match';

/** The command that asks the same. Times are Unix seconds, so it means the same tomorrow. */
export function sessionCommand(id: string, window: { start: number; end: number; whole: boolean } | undefined, allow: string, server: string): string {
  const part = window && !window.whole ? window : undefined;
  const parts = ['tailscope', ...(part || allow ? ['report', 'session'] : ['session', 'show']), shellQuote(id)];
  if (part) parts.push('--start', String(part.start), '--end', String(part.end));
  if (allow) parts.push('--allow', shellQuote(allow));
  parts.push(...serverFlag(server));
  return parts.join(' ');
}

/** Every count of the account, one a line. */
export function accountCsv(e: Session): string {
  const m = e.mirror;
  const out = ['of,what,count'];
  if (!m) return `${out[0]}\n`;
  const line = (of: string, what: string, n: number) => out.push(`${csvCell(of)},${csvCell(what)},${n}`);
  line('clients', 'requests', m.requests);
  for (const [c, n] of Object.entries(m.skipped)) line('clients', `skipped ${c}`, n);
  line('clients', 'chosen', chosen(m));
  for (const [c, n] of Object.entries(m.failed)) line('primary', `failed ${c}`, n);
  for (const s of m.shadows) if (s.account) for (const r of ledger([s.account])) line(s.name, r.key, r.of(s.account));
  return `${out.join('\n')}\n`;
}
