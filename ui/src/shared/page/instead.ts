// An answer that names the nearest of what there is, as the view that asks for it.

import type { Instead } from '../api/schema';
import { isTab, type View } from './url';

/** What may be meant in place of a name that nobody sent, and the view of it; undefined if nothing is like it. */
export function instead(said: Instead | undefined, v: View): { name: string; view: View } | undefined {
  const name = said?.nearest[0];
  if (!said || name === undefined) return undefined;
  const { label, name: wrong } = said;
  const replaced = (values: string[]) => [...new Set(values.map((x) => (x === wrong ? name : x)))];
  if (v.filters[label]?.includes(wrong)) return { name, view: { ...v, filters: { ...v.filters, [label]: replaced(v.filters[label]) } } };
  if (v.more[label]?.includes(wrong)) return { name, view: { ...v, more: { ...v.more, [label]: replaced(v.more[label]) } } };
  const ofOne = v.page === 'service' || v.page === 'mark' || isTab(v.page);
  return label === 'service' && ofOne && v.name === wrong ? { name, view: { ...v, name } } : undefined;
}
