// What the page of a service, or of any family of distributions, asks of the
// server, and what follows from the answers. How it looks is Distribution.svelte's.

import { untrack } from 'svelte';
import { api } from '../shared/api/client';
import type { ApdexResponse, DistributionResponse, FamiliesResponse, LabelsResponse, MarksResponse, TimelineResponse } from '../shared/api/schema';
import type { Num } from '../shared/api/types';
import { fromResponse, type Heat } from '../shared/chart/heat';
import type { Line } from '../shared/chart/Heatmap.svelte';
import { dayDashes, dayName, dayOverlays, onSteps, overlayNames, readDay, zone, type DayOverlay } from '../shared/page/days';
import { counted } from '../shared/page/families';
import { defaultKinds, selection, type Filters } from '../shared/page/match';
import { measured } from '../shared/page/measure';
import { app, Query } from '../shared/page/state.svelte';
import { spanFamily } from '../shared/page/url';
import { concerns } from '../shared/verdict/marks';
import { resolve } from '../shared/text/time';
import { apdexFits, readApdex } from './apdex';
import { searchedBy } from './changes';
import { Changes } from './changes.svelte';

const dashes: Record<string, string> = { p50: '7 4', p95: '', p99: '2 3' };

export class Distribution {
  isService = $derived(app.view.page === 'service');
  family = $derived(this.isService ? spanFamily : app.view.name);
  isSpans = $derived(this.family.startsWith('span_'));
  what = $derived(counted(this.family));

  families = new Query<FamiliesResponse>();
  labels = new Query<LabelsResponse>();
  heat = new Query<Heat>();
  timeline = new Query<TimelineResponse>();
  earlier: Record<DayOverlay, Query<TimelineResponse>> = { yesterday: new Query(), week: new Query(), like: new Query() };
  totals = new Query<DistributionResponse>();
  operations = new Query<DistributionResponse>();
  failures = new Query<DistributionResponse>();
  apdexes = new Query<ApdexResponse>();
  earlierApdex: Record<DayOverlay, Query<ApdexResponse>> = { yesterday: new Query(), week: new Query(), like: new Query() };
  private marks = new Query<MarksResponse>();
  /** Changes that nobody named; asked for once the picture is there. */
  changes: Changes;

  info = $derived(this.families.data?.families?.find((f) => f.name === this.family));
  unit = $derived(this.isSpans ? 'seconds' : (this.info?.unit ?? ''));
  isNumber = $derived(!this.isService && (this.info?.kind === 'gauge' || this.info?.kind === 'counter'));
  private known = $derived(this.isService || this.families.data !== undefined);

  range = $derived(resolve(app.view.range, app.now - 2));
  base = $derived<Filters>(this.isService ? { service: [app.view.name] } : {});
  private presentKinds = $derived((this.labels.data?.labels?.find((l) => l.name === 'kind')?.values ?? []).map((x) => x.value));
  /** The kinds that are meant where none is chosen. */
  preset = $derived(this.isService ? defaultKinds(this.presentKinds) : []);
  /** A metric that no sender gave an environment has all of it under any. */
  private parted = $derived(this.isSpans || this.labels.data?.labels.some((l) => l.name === 'environment'));
  filters = $derived.by<Filters>(() => {
    const f: Filters = { ...this.base, ...app.view.filters };
    if (!this.parted) delete f.environment;
    if (this.isService && !app.view.filters.kind) f.kind = this.preset;
    return f;
  });
  match = $derived(selection(this.filters));
  allKinds = $derived(this.isService && !this.filters.kind?.length);
  private scored = $derived(this.isService && apdexFits(app.view.filters));
  /** Earlier days that are laid over it, by the reader's own clock. */
  days = $derived(dayOverlays.filter((d) => app.view.show.includes(d)));

  h = $derived(this.heat.data);
  group = $derived(this.timeline.data?.groups?.[0]);
  total = $derived(this.totals.data?.groups?.[0]);
  requestCount = $derived(this.group?.count?.reduce((a, b) => a + b, 0) ?? 0);
  errorCount = $derived.by(() => {
    if (!this.isSpans || !this.group?.error_ratio) return null;
    let n = 0;
    this.group.error_ratio.forEach((e, i) => (n += (e ?? 0) * (this.group?.count?.[i] ?? 0)));
    return Math.round(n);
  });
  /** Of several environments none is the service's. */
  apdex = $derived.by(() => {
    const rows = this.scored ? (this.apdexes.data?.rows ?? []).filter((r) => r.service === app.view.name) : [];
    return rows.length === 1 ? rows[0] : undefined;
  });
  warnings = $derived([this.timeline.data?.warnings, this.totals.data?.warnings]);
  shownMarks = $derived((this.marks.data?.marks ?? []).filter((m) => concerns(m, this.isService ? app.view.name : '', app.view.filters.environment)));
  markTimes = $derived(this.shownMarks.map((m) => m.time ?? 0));
  problem = $derived(this.labels.error && !this.labels.data ? this.labels.error : (this.heat.error ?? this.timeline.error ?? this.totals.error));

  private means = $derived(this.h ? Array.from(this.h.columnSum, (s, i) => (this.h!.columnCount[i] ? s / this.h!.columnCount[i] : null)) : []);
  /** What is drawn over the picture, on its columns. */
  lines = $derived.by<Line[]>(() => {
    const h = this.h;
    const out: Line[] = [];
    for (const o of app.view.show) {
      if (o === 'mean') out.push({ name: 'mean', kind: 'mean', dash: '', values: this.means });
      else if (o === 'apdex') continue;
      else if (o === 'yesterday' || o === 'week' || o === 'like') {
        const e = this.earlier[o].data;
        const values = h && e ? onSteps(e.groups[0]?.quantiles['0.95'], e, { start: h.start, step: h.step, n: h.columns }) : [];
        if (values.length) out.push({ name: `p95 ${dayName(o, e)}`, kind: 'offset', dash: dayDashes[o].join(' '), values });
      } else out.push({ name: o, kind: 'quantile', dash: dashes[o], values: this.aligned(this.group?.quantiles?.[`0.${o.slice(1).replace(/0$/, '')}`]) });
    }
    return out;
  });

  /** What is drawn as lines below the picture has come, and which changes there are. */
  get laid(): boolean {
    return this.timeline.settled && (!this.isService || this.changes.settled);
  }
  get awaitsApdex(): boolean {
    return this.scored && !this.apdexes.settled;
  }

  /** Call while a component is being set up. columns is how many there is room for, 0 before that is known. */
  constructor(columns: () => number) {
    const ready = $derived(columns() > 0 && this.known && !this.isNumber && (!this.isService || this.labels.data !== undefined));
    const question = $derived(JSON.stringify([this.family, app.view.range, this.match, columns()]));
    const apdexQuestion = () => ({ match: selection({ ...this.base, ...app.view.filters }), start: this.range.start, end: this.range.end, width: columns() });

    $effect(() => {
      void [app.now, app.attempt];
      if (!this.isService) this.families.ask((signal) => api.families(signal), true);
    });

    // What there is to filter by changes slowly and is dear to count: once a minute is enough.
    const labelMinute = $derived(Math.floor(app.now / 60));
    $effect(() => {
      void [app.attempt, app.view.range, labelMinute];
      const r = untrack(() => this.range);
      const s = { family: this.family, match: selection(this.base), start: r.start, end: r.end };
      this.labels.ask((signal) => api.labels(s, { limit: 100 }, signal), true);
    });

    let asked = '';
    $effect(() => {
      void app.attempt;
      if (!ready) return;
      const s = { family: this.family, match: this.match, start: this.range.start, end: this.range.end };
      const width = columns();
      const quiet = asked === question;
      asked = question;
      this.heat.ask(async (signal) => {
        const answer = await api.heatmap(s, width, signal);
        const began = performance.now();
        const h = fromResponse(answer);
        measured('prepare', began);
        return h;
      }, quiet);
      this.timeline.ask((signal) => api.timeline(s, { width, q: '0.5,0.95,0.99' }, signal), quiet);
      this.totals.ask((signal) => api.distribution(s, { q: '0.5,0.95,0.99' }, signal), quiet);
      if (this.isSpans) {
        this.operations.ask((signal) => api.distribution(s, { by: 'operation', q: '0.5,0.95,0.99', limit: 50 }, signal), quiet);
        const failing = selection({ ...this.filters, status: ['error'] });
        const wanted = app.view.filters.status ?? [];
        if (wanted.length && !wanted.includes('error')) this.failures.data = undefined;
        else this.failures.ask((signal) => api.distribution({ ...s, match: failing }, { by: 'operation', q: '0.5' }, signal), quiet);
      }
      if (this.scored) {
        const q = apdexQuestion();
        this.apdexes.ask((signal) => readApdex(q, signal), true);
      }
    });

    $effect(() => {
      void app.attempt;
      if (!ready) return;
      const s = { family: this.family, match: this.match, start: this.range.start, end: this.range.end };
      const width = columns();
      const scored = this.scored && app.view.show.includes('apdex');
      const q = apdexQuestion();
      const chosen = this.days;
      untrack(() => {
        for (const d of chosen) {
          this.earlier[d].ask((signal) => readDay(d, s, { width, q: '0.95' }, zone, signal), true);
          if (scored) this.earlierApdex[d].ask((signal) => readApdex({ ...q, overlay: overlayNames[d], tz: zone }, signal), true);
        }
      });
    });

    $effect(() => this.readMarks());

    this.changes = new Changes(
      () => (this.isService && this.h ? { match: selection({ ...this.base, ...searchedBy(app.view.filters) }), start: this.range.start, end: this.range.end } : undefined),
      () => this.readMarks(),
    );

    $effect(() => {
      const h = this.h;
      const first = h ? h.columnCount.findIndex((n) => n > 0) : -1;
      if (h && first >= 0 && app.view.pin == null) untrack(() => app.fit(h.start + first * h.step));
    });
  }

  /** Asks for the marks of the range and a day around it. */
  readMarks(): void {
    const { start, end } = this.range;
    this.marks.ask((signal) => api.marks(start - 86400, end + 86400, signal), true);
  }

  /** Values of the timeline on the columns of the picture. */
  private aligned(values: Num[] | undefined): Num[] {
    const [h, t] = [this.h, this.timeline.data];
    if (!h || !t || !values) return [];
    const times = t.times;
    if (t.step === h.step && times[0] === h.start) return values;
    const out: Num[] = new Array(h.columns).fill(null);
    times.forEach((time, i) => {
      const c = Math.floor((time - h.start) / h.step);
      if (c >= 0 && c < h.columns) out[c] = values[i];
    });
    return out;
  }
}
