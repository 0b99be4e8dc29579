// Every picture of the page is read by keys and spoken, or its name says all that it
// shows. A picture that is not in this list fails, so that a new one is thought of.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const src = dirname(fileURLToPath(import.meta.url));
const text = (file: string) => readFileSync(join(src, file), 'utf8').replace(/<!--[\s\S]*?-->/g, '');
const draws = (file: string) => /<canvas|<(LinePlot|Shapes)\s|<Timeline within|\.build\(|<svg(?![^>]*aria-hidden)/.test(text(file));

/** How each is read: by keys of its own, by those of what it stands in, or by its name. */
const pictures: Record<string, 'keys' | 'within' | 'name'> = {
  'checks/Chart.svelte': 'keys',
  'compare/Brush.svelte': 'keys',
  'compare/Heat.svelte': 'keys',
  'load/LayoutRows.svelte': 'name',
  'load/StepColumns.svelte': 'keys',
  'load/WorkView.svelte': 'keys',
  'service/Moment.svelte': 'name',
  'shared/chart/Heatmap.svelte': 'keys',
  'shared/chart/HeatStrip.svelte': 'keys',
  'shared/chart/LinePlot.svelte': 'within',
  'shared/chart/NumberPlot.svelte': 'keys',
  'shared/chart/Sparkline.svelte': 'name',
  'shared/chart/StateStrip.svelte': 'name',
  'shared/chart/Timeline.svelte': 'keys',
  'tenants/BandsBar.svelte': 'name',
  'tenants/CohortLines.svelte': 'keys',
  'traces/Stack.svelte': 'keys',
};

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).map((f) => f.replaceAll('\\', '/')).filter((f) => f.endsWith('.svelte'));

test('the list has every picture', () => expect(Object.keys(pictures).sort()).toEqual(files.filter(draws).sort()));

test.each(Object.entries(pictures).filter(([, how]) => how === 'keys'))('%s is reached by Tab, has a name, and its keys move what is spoken', (file) => {
  const t = text(file);
  for (const part of [/tabindex=["{][^"}]*\b0\b/, /role=["{][^"}]*\b(application|group|slider)\b/, /aria-label=/, /onkeydown=/]) expect(t).toMatch(part);
  // A heatmap is described by what stands beside it, and strips by their table, which speak.
  if (!file.endsWith('/HeatStrip.svelte')) expect(t).toMatch(/<Spoken\b|aria-live=|aria-valuetext=|aria-describedby=/);
});

test.each(Object.entries(pictures).filter(([, how]) => how === 'name'))('%s says in its name what it shows', (file) => {
  expect(text(file)).toMatch(/<svg[^>]*role="img"[^>]*aria-label=/);
});

test('what a heatmap is described by speaks', () => {
  const users = files.filter((f) => /<(Heatmap|HeatStrip)\b/.test(text(f)));
  expect(users.length).toBeGreaterThan(0);
  // The page of a service has it through its read-out.
  for (const f of users) expect(text(f), f).toMatch(/<Spoken\b|<Readout\b/);
});
