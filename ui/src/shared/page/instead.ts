// An answer that names the nearest of what there is, as the view that asks for it.

import { isTab, type View } from './url';

/** What a message says to mean in place of a name that nobody sent, and the view of it; undefined if it says none. */
export function instead(message: string, v: View): { name: string; view: View } | undefined {
  const m = /^there is no (\S+) "(.*?)"(?: of .*?)?; did you mean "(.*?)"\?/.exec(message);
  if (!m) return undefined;
  const [, label, wrong, name] = m;
  const replaced = (values: string[]) => [...new Set(values.map((x) => (x === wrong ? name : x)))];
  if (v.filters[label]?.includes(wrong)) return { name, view: { ...v, filters: { ...v.filters, [label]: replaced(v.filters[label]) } } };
  if (v.more[label]?.includes(wrong)) return { name, view: { ...v, more: { ...v.more, [label]: replaced(v.more[label]) } } };
  const ofOne = v.page === 'service' || v.page === 'mark' || isTab(v.page);
  return label === 'service' && ofOne && v.name === wrong ? { name, view: { ...v, name } } : undefined;
}
