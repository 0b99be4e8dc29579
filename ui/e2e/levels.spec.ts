// Apdex, the SLA page on screen and paper, earlier days, metrics beside, and
// before and after a mark.
import { expect, test, type Page } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { value } from '../src/shared/text/format';
import { accessFaults, ask, known, settled } from './page';
import { perMinute, seedTraces, type Traces } from './seed-traces';

let t: Traces;
test.beforeAll(async ({}, info) => {
  info.setTimeout(120_000);
  t = await seedTraces(process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099', known());
});

const range = () => `start=${t.start}&end=${t.end}`;
const service = (extra = '') => `/services/${t.service}?${range()}${extra}`;

/** The name of the range a day before: two days, if midnight in Berlin is in it. */
function yesterday(): string {
  const of = (at: number) => new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short', timeZone: 'Europe/Berlin' }).format((at - 86400) * 1000).replace(',', '');
  return [...new Set([of(t.start), of(t.end - 1)])].join(' – ');
}

const sla = (extra = '') => `/services/${t.service}/sla?period=day&count=2${extra}`;

interface Report {
  rows: { name: string; requests: number; apdex: number; met: string; quantiles: Record<string, number> }[];
}

async function report(page: Page, more: Record<string, string | number> = {}): Promise<Report> {
  return ask<Report>(page, 'sla', { match: `{service="${t.service}"}`, period: 'day', count: 2, tz: 'Europe/Berlin', objective: 0.99, under: 0.5, ...more });
}

test('the SLA page shows the report of the API', async ({ page }) => {
  await page.goto(sla());
  const d = await report(page);
  const rows = page.getByTestId('sla').locator('tbody tr');
  await expect(rows).toHaveCount(3);
  for (const [i, r] of d.rows.entries()) {
    await expect(rows.nth(i)).toContainText(r.name);
    if (r.met !== 'none') { // soon after midnight today has no data
      await expect(rows.nth(i)).toContainText(r.apdex.toFixed(2));
      await expect(rows.nth(i)).toContainText(value(r.quantiles['0.95']));
    }
    await expect(rows.nth(i)).toContainText({ yes: '✓ met', no: '✕ missed', unknown: '? open', none: '– no data' }[r.met]!);
  }
  await expect(page.getByTestId('sla-verdict')).toContainText('The objective, 99 % good within 500 ms,');
  const last = d.rows.findLast((r) => r.met !== 'none')!;
  await expect(page.getByTestId('sla-chart')).toHaveAttribute('aria-label', new RegExp(`${last.name}: .* Apdex ${last.apdex.toFixed(2)}`));
});

test('objective, zone and period are in the address; nonsense is refused in place', async ({ page }) => {
  await page.goto(sla());
  await page.getByLabel('objective').fill('99.9');
  await page.getByLabel('objective').press('Enter');
  await expect(page).toHaveURL(/objective=0\.999/);
  await page.getByLabel('under', { exact: true }).fill('50 ms');
  await page.getByLabel('under', { exact: true }).press('Enter');
  await expect(page.getByTestId('sla')).toContainText('✕ missed');
  await expect(page.getByTestId('sla-verdict')).toContainText('99.9 % good within 50 ms, was missed');
  await page.getByLabel('Time zone').fill('Middle/Earth');
  await page.getByLabel('Time zone').press('Enter');
  await expect(page.getByRole('alert')).toContainText('No such zone');
  await page.getByLabel('Time zone').fill('asia/tokyo');
  await page.getByLabel('Time zone').press('Enter');
  await expect(page).toHaveURL(/tz=Asia\/Tokyo/);
  await expect(page.getByText('Asia/Tokyo. Apdex with T')).toBeVisible();
  await page.getByRole('button', { name: 'Copy', exact: false }).first().click();
  await expect(page.getByText(`tailscope report sla --service ${t.service} --period day --count 2 --tz Asia/Tokyo --objective 0.999 --under 0.05`)).toBeVisible();
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save CSV' }).click();
  const csv = readFileSync((await (await saved).path())!, 'utf8').trim().split('\n');
  expect(csv).toHaveLength(3);
  expect(csv[0]).toContain('period,start,end,partial,requests');
  await page.goBack();
  await expect(page).not.toHaveURL(/Tokyo/);
});

test('the report is one page of paper, light on a dark screen too', async ({ page }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.goto(`/services/${t.service}/sla?count=8`);
  await expect(page.getByTestId('sla')).toBeVisible();
  const pdf = (await page.pdf({ format: 'A4', preferCSSPageSize: true })).toString('latin1');
  expect(pdf.match(/\/Type\s*\/Page[^s]/g)).toHaveLength(1);
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeHidden();
  await expect(page.getByRole('button', { name: 'Print' })).toBeHidden();
  const light = await page.evaluate(() => {
    const c = document.createElement('canvas').getContext('2d', { willReadFrequently: true })!;
    c.fillStyle = getComputedStyle(document.body).backgroundColor;
    c.fillRect(0, 0, 1, 1);
    return c.getImageData(0, 0, 1, 1).data[0];
  });
  expect(light).toBeGreaterThan(240);
});

test('T is set by a click, and history is scored by it', async ({ page }) => {
  await page.goto(service('&show=mean,apdex'));
  await settled(page);
  const apdex = page.getByTestId('apdex');
  await expect(apdex).toContainText('(T 500 ms)');
  await expect(apdex).toHaveAttribute('title', /the default.*fewer than 100 requests a minute/);
  const before = Number(/Apdex ([\d.]+)/.exec((await apdex.textContent())!.replace(/\s+/g, ' '))![1]);
  await apdex.click();
  const form = page.getByRole('dialog');
  await form.getByRole('textbox').fill('soon');
  await form.getByRole('button', { name: 'Set' }).click();
  await expect(form.getByRole('alert')).toContainText('T is a duration');
  await form.getByRole('textbox').fill('50 ms');
  await form.getByRole('button', { name: 'Set' }).click();
  await expect(apdex).toContainText('(T 50 ms)');
  await expect(apdex).toHaveAttribute('title', /set for this service/);
  const after = Number(/Apdex ([\d.]+)/.exec((await apdex.textContent())!.replace(/\s+/g, ' '))![1]);
  expect(before).toBeGreaterThan(0.9);
  expect(after).toBeLessThan(0.6);
  await expect(page.getByRole('img', { name: /^Apdex\./ })).toHaveAttribute('aria-label', /below 100 requests a minute: from 0\.\d+/);
  await form.getByRole('button', { name: /^Back to/ }).click();
  await expect(apdex).toContainText('(T 500 ms)');
});

test('yesterday lies over today on every chart, by its day', async ({ page }) => {
  await page.goto(service());
  await settled(page);
  await page.locator('[data-popover="view"]').click();
  await page.getByRole('checkbox', { name: 'yesterday' }).check();
  await page.keyboard.press('Escape');
  await expect(page).toHaveURL(/show=[^&]*yesterday/);
  const day = yesterday();
  const quantiles = page.getByRole('img', { name: /^Quantiles\./ });
  // Yesterday's requests took twice as long.
  await expect(quantiles).toHaveAttribute('aria-label', new RegExp(`p95 ${day}: from (2|3)\\d\\d ms`));
  await expect(page.getByRole('img', { name: /^Rate\./ })).toHaveAttribute('aria-label', new RegExp(`${day}: from`));
  await page.reload();
  await expect(quantiles).toHaveAttribute('aria-label', new RegExp(`p95 ${day}`));
  await page.locator('[data-popover="view"]').click();
  await page.getByRole('checkbox', { name: 'Apdex', exact: true }).check();
  await expect(page.getByRole('img', { name: /^Apdex\./ })).toHaveAttribute('aria-label', new RegExp(`${day}: from 1\\.00 to 1\\.00`));
});

test('yesterday lies over the stacked charts', async ({ page }) => {
  const days = { name: 'yesterday' };
  const dated = yesterday();
  await page.goto(`/services/${t.service}/breakdown?${range()}`);
  await page.getByRole('checkbox', days).check();
  const stack = page.getByTestId('stack').getByRole('application');
  // A request of yesterday took from 200 ms to 398 ms; no step has the shortest alone.
  await expect(stack).toHaveAttribute('aria-label', new RegExp(`${dated}: from (2|3)\\d\\d ms to (2|3)\\d\\d ms`));
  await page.getByRole('button', { name: 'per second' }).click();
  await expect(stack).toHaveAttribute('aria-label', new RegExp(`${dated}: from [\\d.]+ ms/s`));
  await page.getByRole('button', { name: 'share', exact: true }).click();
  // All shares are as high as the others: their layers are told, and where they meet is drawn.
  await expect(stack).toHaveAttribute('aria-label', new RegExp(`${dated} app: from [\\d.]+ % to [\\d.]+ %; ${dated} database: from`));
  await page.getByRole('button', { name: 'per request', exact: true }).click();
  const day = page.getByTestId('day');
  await expect(day).toContainText(`${dated} how high it was per request`);
  await stack.hover({ position: { x: 600, y: 100 } });
  await expect(day).toContainText(new RegExp(`${dated} \\d\\d\\d ms\\s*app [\\d.]+ ms · database 100 ms`));
  await page.goto(`/services/${t.service}/database?${range()}&show=yesterday`);
  await expect(page.getByRole('checkbox', days)).toBeChecked();
  // One call in ten seconds at most, of 50 ms today and of 100 ms then.
  const heavy = page.getByTestId('stack').last().getByRole('application');
  await expect(heavy).toHaveAttribute('aria-label', new RegExp(`${dated}: from 0 s/s to 10.0 ms/s`));
});

test('a metric is drawn beside the latency, per request too', async ({ page }) => {
  await page.goto(service());
  await settled(page);
  await page.getByRole('button', { name: 'Add a metric' }).click();
  await page.getByRole('searchbox', { name: 'Search metrics' }).fill('trace test');
  await page.getByRole('button', { name: new RegExp(t.counter) }).click();
  await expect(page).toHaveURL(new RegExp(`m=${t.counter}`));
  const beside = page.getByTestId('beside');
  await expect(beside.getByRole('img', { name: new RegExp(`^${t.counter}: seconds each second`) })).toHaveAttribute('aria-label', /to 0\.01/);
  await beside.getByLabel('per request').check();
  await expect(page).toHaveURL(/%2Frequest|\/request/);
  // 0.6 s a minute over the requests of a minute.
  const per = value(0.6 / perMinute);
  await expect(beside.getByRole('img', { name: /per request/ })).toHaveAttribute('aria-label', new RegExp(`to ${per}`));
  await page.reload();
  await expect(beside.getByRole('img', { name: /per request/ })).toBeVisible();
  await beside.getByRole('button', { name: /^Remove/ }).click();
  await expect(beside).toHaveCount(0);
  await page.goBack();
  await expect(beside).toHaveCount(1);
});

test('a metric that is split is laid over by its own lines, or it is said why not', async ({ page }) => {
  await page.goto(service(`&m=${t.gauge}@pool&show=yesterday`));
  await settled(page);
  const beside = page.getByTestId('beside');
  const dated = yesterday();
  await expect(beside.getByRole('img', { name: new RegExp(`^${t.gauge}`) })).toHaveAttribute('aria-label', new RegExp(`a: from 10.*; b: from 20.*; a ${dated}: from 15.*; b ${dated}: from 25`));
  await page.locator('[data-popover="view"]').click();
  for (const name of ['last week', 'last like day']) await page.getByRole('checkbox', { name }).check();
  await expect(beside).toContainText(`Earlier days are not drawn here: 2 lines of ${t.gauge} with 3 other days could not be told apart.`);
  await beside.getByRole('button', { name: 'by nothing' }).click();
  await expect(beside.getByRole('img', { name: new RegExp(`^${t.gauge}`) })).toHaveAttribute('aria-label', new RegExp(`${dated}: from 20`));
  await expect(beside.getByText('could not be told apart')).toHaveCount(0);
});

test('a distribution beside the latency is a heatmap too', async ({ page }) => {
  await page.goto(service('&m=span_self_seconds;component=db'));
  await settled(page);
  const beside = page.getByTestId('beside');
  await beside.getByLabel('heatmap').check();
  await expect(page).toHaveURL(/m=span_self_seconds(\/|%2F)heat/);
  const map = beside.getByTestId('heatmap');
  await expect(map).toHaveAttribute('aria-label', new RegExp(`^Heatmap of span_self_seconds, .*: ${t.requests - 2} requests`));
  await map.focus();
  await page.keyboard.press('ArrowLeft');
  await expect(beside.getByTestId('beside-heat')).toContainText(/of \d+ requests at|no requests/);
  await page.reload();
  await expect(map).toBeVisible();
  await beside.getByLabel('per request').check();
  await expect(map).toHaveCount(0);
});

test('a mark leads to its before and after', async ({ page }) => {
  const at = t.start + 600;
  const res = await page.request.post('/api/v1/marks', { data: { name: 'new index', service: t.service, time: at, revision: '4f2a91c', user: 'ada', description: 'faster, one hopes', link: 'https://changes.example/7' } });
  const mark = await res.json();
  await page.goto(service());
  await settled(page);
  await page.getByRole('button', { name: 'new index' }).click();
  await expect(page.getByRole('dialog')).toContainText('ada');
  await page.getByRole('link', { name: 'Before and after' }).click();
  await expect(page).toHaveURL(new RegExp(`/services/${t.service}/marks/${mark.id}`));
  await expect(page.getByRole('heading', { name: 'new index' })).toBeVisible();
  await expect(page.getByText('4f2a91c')).toBeVisible();
  const cuts = [at - 300, at].map((start) => page.waitForResponse((r) => r.url().includes('/breakdown?') && r.url().includes(`start=${start}&`) && r.url().includes(`end=${start + 300}`)));
  await page.getByRole('button', { name: '5 min', exact: true }).click();
  await expect(page).toHaveURL(/around=5m/);
  // The breakdown is of the very same windows, not widened across the mark.
  for (const [i, cut] of cuts.entries()) expect(await (await cut).json()).toMatchObject({ start: at - 300 + 300 * i, end: at + 300 * i });
  const match = `{service="${t.service}",kind="server"}`;
  const table = page.getByTestId('before-after');
  for (const [column, start] of [[1, at - 300], [2, at]]) {
    const d = await ask<{ groups: { count: number; quantiles: Record<string, number> }[] }>(page, 'distribution', { match, start, end: start + 300, q: '0.5,0.95,0.99' });
    await expect(table.getByRole('row').filter({ hasText: 'p95' }).getByRole('cell').nth(column - 1)).toHaveText(value(d.groups[0].quantiles['0.95']));
    await expect(table.getByRole('row').filter({ hasText: 'Requests' }).getByRole('cell').nth(column - 1)).toHaveText(String(d.groups[0].count));
  }
  await expect(page.getByText('These are plain ratios of what was measured')).toBeVisible();
  await expect(page.getByTestId('before-after-components')).toContainText('database');
  await page.getByRole('button', { name: 'Copy', exact: true }).click();
  for (const [start, end] of [[at - 300, at], [at, at + 300]]) {
    await expect(page.getByText(`tailscope query distribution --match '${match}' --start ${start} --end ${end}`)).toBeVisible();
    await expect(page.getByText(`histogram_quantile(0.95, sum(rate(span_duration_seconds${match}[300s] @ ${end})))`)).toBeVisible();
  }
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save CSV' }).click();
  expect(readFileSync((await (await saved).path())!, 'utf8')).toMatch(/^figure,before,after\nstart,[^]*\nseconds_per_request_db,0\.05\d*,0\.05\d*\n/);
  await page.keyboard.press('Escape');
  await page.getByTestId('two-curves').focus();
  await page.keyboard.press('ArrowRight');
  await expect(page.getByText(/Below .*: .* before, .* after/)).toBeVisible();
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    expect(await accessFaults(page, scheme), scheme).toEqual([]);
  }
  await page.request.delete(`/api/v1/marks/${mark.id}`);
  await page.reload();
  await expect(page.getByText('There is no such mark.')).toBeVisible();
});

test('the SLA page and the Apdex form keep WCAG AA; pages fit a phone', async ({ page }) => {
  test.setTimeout(180_000);
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const path of [sla(), service(`&show=mean,p95,apdex,yesterday&m=${t.counter}`)]) {
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.goto(path);
      if (path.includes('/sla')) await expect(page.getByTestId('sla')).toBeVisible();
      else {
        await settled(page);
        await page.getByTestId('apdex').click();
        await expect(page.getByTestId('beside').getByRole('img')).toBeVisible();
      }
      expect(await accessFaults(page, scheme), path).toEqual([]);
      await page.keyboard.press('Escape');
      await page.setViewportSize({ width: 390, height: 844 });
      await page.waitForTimeout(300);
      await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), path).toBeLessThanOrEqual(390);
    }
  }
});
