// The pages that the header and the palette lead to.

import { pick } from '../shared/page/match';
import { isTab, type View } from '../shared/page/url';

export interface Place {
  name: string;
  href: string;
  /** Whether the page shown is of it. */
  on: boolean;
}

/** In the header's order, with addresses in the present range and environment. */
export function places(v: View, link: (patch: Partial<View>) => string): Place[] {
  const ofService = v.page === 'service' || isTab(v.page);
  return [
    { name: 'Services', href: link({ page: 'services' }), on: ofService || /^(services|trace|mark|scaling)$/.test(v.page) },
    { name: 'Tenants', href: link({ page: 'tenants' }), on: v.page === 'tenants' },
    { name: 'Compare', href: link({ page: 'compare', filters: v.page === 'tenants' ? pick(v.filters, ['service']) : ofService ? { service: [v.name] } : {} }), on: v.page === 'compare' },
    { name: 'Sessions', href: link({ page: 'sessions' }), on: /^(session|simulate)/.test(v.page) },
    { name: 'Checks', href: link({ page: 'checks' }), on: /^checks?$/.test(v.page) },
    { name: 'Marks', href: link({ page: 'marks', filters: ofService || v.page === 'mark' ? { service: [v.name] } : {} }), on: v.page === 'marks' },
    { name: 'Metrics', href: link({ page: 'families' }), on: v.page === 'families' || v.page === 'family' },
    { name: 'Cluster', href: link({ page: 'cluster' }), on: v.page === 'cluster' },
  ];
}
