// The environments that the page's service, or the server, has in the range, and the
// choice among them. The choice is a filter of the view, which goes along to other pages.

import { untrack } from 'svelte';
import { api } from '../api/client';
import type { LabelsResponse } from '../api/schema';
import { resolve } from '../text/time';
import { environmentsOf, selection } from './match';
import { app, Query } from './state.svelte';
import { isTab, spanFamily } from './url';

class Environments {
  private query = new Query<LabelsResponse>();
  /** The panel of the choice is open. */
  open = $state(false);
  /** Whether the page asks questions that an environment narrows. */
  private asks = $derived(isTab(app.view.page) || /^(services|service|family|tenants|compare|checks|mark|scaling)$/.test(app.view.page));
  /** The service that the page is about; empty if there is none, or several. */
  service = $derived(
    app.view.page === 'service' || app.view.page === 'mark' || isTab(app.view.page) ? app.view.name
    : app.view.page === 'scaling' ? (app.view.more.service?.[0] ?? '') : app.view.filters.service?.length === 1 ? app.view.filters.service[0] : '',
  );
  chosen = $derived(app.view.filters.environment ?? []);
  /** Those of the range by falling count, and those chosen. An empty name is of requests that have none. */
  all = $derived(environmentsOf(this.query.data?.labels?.find((l) => l.name === 'environment'), this.chosen));
  shown = $derived(this.asks && (this.all.length > 1 || this.chosen.length > 0));

  /** Asks what there is, once a minute. Call while a component is being set up. */
  watch(): void {
    const question = $derived(JSON.stringify([this.service, app.view.range, Math.floor(app.now / 60)]));
    $effect(() => {
      void [app.attempt, question];
      if (!this.asks || !app.begun || app.empty) return;
      const match = selection(this.service ? { service: [this.service] } : {});
      const { start, end } = untrack(() => resolve(app.view.range, app.now));
      untrack(() => this.query.ask((signal) => api.labels({ family: spanFamily, match, start, end }, { names: 'environment', limit: 50 }, signal), true));
    });
  }

  /** Narrows every question to an environment; null takes all together. */
  choose(name: string | null): void {
    app.go({ filters: { ...app.view.filters, environment: name === null ? [] : [name] }, offset: 0 });
  }
}

export const environments = new Environments();
