// Where the time goes, of traces whose times are known.
import { expect, test, type Page } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { count, percent, value } from '../src/shared/text/format';
import { accessFaults, ask, settled } from './page';
import type { Parts } from './seed-parts';

const known = (): Parts => JSON.parse(process.env.TAILSCOPE_SEED_PARTS ?? '{}');
const path = (tab: string, extra = '') => `/services/${known().service}${tab && `/${tab}`}?start=${known().start}&end=${known().end}${extra && `&${extra}`}`;

interface Breakdown {
  total: number;
  seconds: number;
  components: { component: string; seconds: number; share: number }[];
  parts: { component: string; operation: string; calls: number; per_request: number; n_plus_one: boolean; seconds: number }[];
  band: { low: number; requests: number; mean: number };
}

const match = () => `{service="${known().service}"}`;
const range = () => ({ start: known().start, end: known().end });

async function open(page: Page, extra = ''): Promise<void> {
  await page.goto(path('breakdown', extra));
  await expect(page.getByTestId('components')).toBeVisible();
}

const row = (page: Page, table: string, name: string) => page.getByTestId(table).getByRole('row').filter({ hasText: name });

test('the parts are the known times', async ({ page }) => {
  await open(page);
  const p = known();
  const whole = p.seconds.app + p.seconds.db + p.seconds.external;
  const b = await ask<Breakdown>(page, 'breakdown', { match: match(), ...range() });
  expect(b.total).toBe(p.requests);
  expect(b.seconds / whole).toBeCloseTo(1, 3);
  for (const [component, name] of [['app', 'app'], ['db', 'database'], ['external', 'external']] as const) {
    const c = b.components.find((x) => x.component === component)!;
    expect(c.seconds / p.seconds[component], component).toBeCloseTo(1, 2);
    await expect(row(page, 'components', name)).toContainText(percent(p.seconds[component] / whole));
    await expect(row(page, 'components', name)).toContainText(value(c.seconds / b.total));
  }
  const queue = b.components.find((x) => x.component === 'queue')!;
  expect(queue.seconds / p.seconds.queue).toBeCloseTo(1, 2);
  await expect(row(page, 'components', 'queue')).toContainText('before the request');
  await expect(page.getByTestId('facts')).toContainText(count(p.requests));
  await expect(page.getByRole('application')).toHaveAttribute('aria-label', /Time per request.*app: from .* to .*; database: from/);
});

test('the tail is told from the typical request', async ({ page }) => {
  await open(page);
  const b = await ask<Breakdown>(page, 'breakdown', { match: match(), ...range(), above: 0.95 });
  const tail = page.getByTestId('tail');
  await expect(tail).toContainText(`${count(b.band.requests)} requests slower than ${value(b.band.low)}, above p95, took ${value(b.band.mean)} on average`);
  await expect(tail).toContainText('is SELECT items (database, called 20 times instead of once)');
  const first = page.getByTestId('differences').getByRole('row').nth(1);
  await expect(first).toContainText('SELECT items');
  await expect(first).toContainText('4.00 ms160 ms+156 ms');
  await expect(first).toContainText('1.0 → 20.0');
  const [typical, slow] = await page.getByTestId('tail-bars').getByRole('img').all();
  await expect(typical).toHaveAttribute('aria-label', /^typical: 10\.\d ms per request: app 6\.\d+ ms .*, database 4\.00 ms .*; before it 2\.\d+ ms in a queue$/);
  await expect(slow).toHaveAttribute('aria-label', /^above p95: .*database 180 ms .*external 10\.0 ms .*; before it 20\.\d+ ms in a queue$/);

  await page.getByRole('button', { name: 'above p99', exact: true }).click();
  await expect(page).toHaveURL(/above=0\.99/);
  await expect(tail).toContainText('above p99');
  await page.getByLabel('or from').fill('200 ms');
  await page.getByRole('textbox', { name: 'to', exact: true }).fill('0.3 s');
  await page.getByRole('button', { name: 'Show' }).click();
  await expect(page).toHaveURL(/low=0\.2&high=0\.3/);
  await expect(tail).toContainText(/requests of (19|20)\d–(29|30)\d ms took/);
  await page.getByLabel('or from').fill('soon');
  await page.getByRole('button', { name: 'Show' }).click();
  await expect(page.getByRole('alert')).toContainText('such as 200 ms');
  await page.goBack();
  await expect(tail).toContainText('above p99');
  await page.goBack();
  await expect(tail).toContainText('above p95');
});

test('parts are listed, sorted by key, and warned of', async ({ page }) => {
  await open(page);
  const b = await ask<Breakdown>(page, 'breakdown', { match: match(), ...range() });
  const select = b.parts.find((p) => p.operation === 'SELECT items')!;
  expect(select.calls).toBe(known().requests - known().slow + 20 * known().slow);
  expect(select.n_plus_one).toBe(true);
  const line = row(page, 'parts', 'SELECT items');
  await expect(line).toContainText('N+1');
  await expect(line).toContainText('2.9'); // calls per request: 0.9 + 2
  await expect(row(page, 'parts', 'INSERT lines')).not.toContainText('N+1');
  const names = () => page.getByTestId('parts').locator('tbody tr td:first-child').allInnerTexts();
  const before = await names();
  const head = page.getByTestId('parts').getByRole('columnheader', { name: 'Part', exact: true }).getByRole('button');
  await head.focus();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/sort=name/);
  const sorted = await names();
  expect(sorted).not.toEqual(before);
  expect(sorted).toEqual([...sorted].sort((x, y) => x.localeCompare(y)));
  await page.keyboard.press('Enter');
  expect(await names()).toEqual(sorted.reverse());
  await row(page, 'parts', 'INSERT lines').getByRole('link').click();
  await expect(page).toHaveURL(/\/database\?/);
  await expect(page.getByTestId('callers')).toContainText('GET /basket/{id}');
});

test('the picture is in the address, and read by keys', async ({ page }) => {
  await open(page);
  await page.getByRole('button', { name: 'share', exact: true }).click();
  await page.getByRole('button', { name: 'critical path' }).click();
  await expect(page).toHaveURL(/unit=share&time=critical/);
  await page.reload();
  await expect(page.getByText('Share of time, critical path')).toBeVisible();
  await page.getByRole('button', { name: 'exclusive' }).click();
  await page.getByRole('button', { name: 'parts', exact: true }).click();
  await expect(page.getByTestId('stack')).toContainText('INSERT lines');
  await page.getByRole('button', { name: 'components', exact: true }).click();
  const chart = page.getByRole('application');
  await chart.focus();
  await page.keyboard.press('Home');
  const figure = page.getByTestId('stack');
  await expect(figure.getByTestId('spoken')).toContainText(/CET.*app \d.* %, database \d.* %, external .* %, queue/);
  const first = await figure.locator('.when').innerText();
  await page.keyboard.press('ArrowRight');
  expect(await figure.locator('.when').innerText()).not.toBe(first);
  await page.keyboard.press('Escape');
  await expect(figure.locator('.when')).toHaveText('');
});

test('a fan-out names the instance that is last', async ({ page }) => {
  await open(page);
  const table = page.getByRole('table').filter({ hasText: 'Last to end' });
  const late = table.getByRole('row').filter({ hasText: 'shard-3' });
  await expect(late).toContainText('straggler');
  await expect(late).toContainText('100.0 %');
  await expect(table.getByRole('row').filter({ hasText: 'shard-1' })).not.toContainText('straggler');
});

test('the heatmap leads here: what is pinned, and a rectangle', async ({ page }) => {
  await page.goto(path('', 'axis=linear&cap=0.4'));
  await settled(page);
  const box = (await page.getByTestId('heatmap').boundingBox())!;
  await page.mouse.click(box.x + box.width / 2, box.y + box.height * 0.3);
  await page.getByRole('button', { name: 'Where their time goes' }).click();
  await page.getByRole('link', { name: /^slower than/ }).first().click();
  await expect(page).toHaveURL(/\/breakdown\?.*low=0\.2/);
  await expect(page.getByTestId('tail')).toContainText('requests slower than');
  await page.goBack();
  await settled(page);
  await page.keyboard.down('Shift');
  await page.mouse.move(box.x + box.width * 0.2, box.y + box.height * 0.1);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.3);
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.6);
  await page.mouse.up();
  await page.keyboard.up('Shift');
  await expect(page).toHaveURL(/box=/);
  await page.getByTestId('box').getByRole('link').click();
  await expect(page).toHaveURL(/\/breakdown\?.*low=0\.1\d*&high=0\.3/);
  const url = new URL(page.url());
  const span = known().end - known().start;
  expect(Math.abs(Number(url.searchParams.get('start')) - known().start - 0.2 * span)).toBeLessThan(60);
  expect(Math.abs(Number(url.searchParams.get('end')) - known().start - 0.6 * span)).toBeLessThan(60);
  await expect(page.getByTestId('tail')).toContainText('SELECT items');
});

test('operations are sorted and searched by the server and lead to their breakdown', async ({ page }) => {
  await page.goto(path('operations'));
  const basket = row(page, 'ops', 'GET /basket/{id}');
  await expect(basket).toContainText(count(known().requests));
  await page.getByRole('button', { name: 'all spans' }).click();
  await expect(row(page, 'ops', 'INSERT lines')).toContainText(count(known().slow));
  await page.getByRole('button', { name: 'by calls' }).click();
  await expect(page).toHaveURL(/sort=calls/);
  await expect(page.getByTestId('ops').getByRole('row').nth(1)).toContainText('SELECT items');
  await page.getByRole('searchbox', { name: 'Search operations' }).fill('lines');
  await expect(page).toHaveURL(/q=lines/);
  await expect(row(page, 'ops', 'SELECT items')).toHaveCount(0);
  await page.getByRole('searchbox', { name: 'Search operations' }).fill('nothing like it');
  await expect(page.getByTestId('ops')).toContainText('No operation contains “nothing like it”.');
  await page.getByRole('searchbox', { name: 'Search operations' }).fill('');
  await page.getByRole('button', { name: 'requests', exact: true }).click();
  await basket.getByRole('link', { name: 'GET /basket/{id}' }).click();
  await expect(page).toHaveURL(/\/breakdown\?.*l\.operation==GET/);
  await expect(page.getByTestId('facts')).toContainText(count(known().requests));
});

test('the database page tells reads from writes, and who calls', async ({ page }) => {
  await page.goto(path('database'));
  const p = known();
  await expect(page.getByTestId('facts')).toContainText(`writes${percent(p.save / p.seconds.db)}`);
  await expect(page.getByTestId('stack')).toHaveCount(2);
  await expect(page.getByRole('application').first()).toHaveAttribute('aria-label', /^Reads and writes.*reads: from .*; writes: from/);
  const select = row(page, 'ops', 'SELECT items');
  await expect(select).toContainText('read');
  await expect(select).toContainText('N+1');
  await select.getByRole('button', { name: 'Callers of SELECT items' }).click();
  await expect(page).toHaveURL(/open=/);
  const caller = page.getByTestId('callers').getByRole('row').filter({ hasText: 'GET /basket/{id}' });
  await expect(caller).toContainText('100.0 %');
  await expect(caller).toContainText(count(p.requests));
  await expect(caller).toContainText('2.9');
  await page.reload();
  await expect(caller).toBeVisible();
  await page.getByRole('button', { name: 'calls', exact: true }).click();
  await expect(page).toHaveURL(/measure=calls/);
  await page.getByRole('button', { name: 'cache' }).click();
  await expect(page.getByTestId('no-traces')).toContainText('No cache operation was measured in this range.');

  await page.goto(path('external'));
  await expect(row(page, 'ops', 'bank.example')).toContainText(count(p.slow));
});

test('copies give a command, PromQL and a table', async ({ page }) => {
  await open(page);
  await page.getByRole('button', { name: 'Copy' }).first().click();
  await expect(page.locator('pre').first()).toContainText(`tailscope query breakdown --match '{service="${known().service}"}' --start ${known().start} --end ${known().end}`);
  await expect(page.locator('pre').first()).toContainText('--above 0.95');
  await expect(page.locator('pre').nth(1)).toContainText('histogram_sum(rate(span_self_seconds{');
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save CSV' }).click();
  const lines = readFileSync(await (await saved).path(), 'utf8').trim().split('\n');
  expect(lines[0]).toBe('start,end,component,requests,exclusive_seconds,critical_seconds');
  const sum = (component: string) => lines.slice(1).map((l) => l.split(',')).filter((l) => l[2] === component).reduce((s, l) => s + Number(l[4]), 0);
  expect(sum('db') / known().seconds.db).toBeCloseTo(1, 3);
});

test('nothing to show says why, an error says what to try', async ({ page }) => {
  const p = known();
  await page.goto(`/services/${p.service}/breakdown?start=${p.start - 7200}&end=${p.start - 3600}`);
  await expect(page.getByTestId('no-traces')).toContainText('about 20 s after');
  await expect(page.getByTestId('no-traces').locator('pre')).toContainText('OTEL_EXPORTER_OTLP_ENDPOINT=');
  await open(page);
  const fail = (route: { fulfill: (r: object) => Promise<void> }) => route.fulfill({ status: 503, json: { error: { code: 'unavailable', message: 'the disk is full' } } });
  await page.route('**/api/v1/breakdown?*', fail);
  await page.getByRole('button', { name: 'above p99', exact: true }).click();
  await expect(page.getByRole('alert')).toContainText('Where the time goes could not be read: the disk is full.');
  await expect(page.getByTestId('parts')).toBeVisible(); // the last answer stays
  await page.unroute('**/api/v1/breakdown?*', fail);
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(page.getByRole('alert')).toHaveCount(0);
  await expect(page.getByTestId('tail')).toContainText('above p99');
});

const tabs = ['breakdown', 'operations', 'database', 'external'];
const tables: Record<string, string> = { breakdown: 'parts', operations: 'ops', database: 'ops', external: 'ops' };

test('a phone shows one column', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  for (const tab of tabs) {
    await page.goto(path(tab));
    await expect(page.getByTestId(tables[tab])).toBeVisible();
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), tab).toBe(390);
    await expect(page.getByRole('navigation', { name: 'Of this service' }).locator('[aria-current]')).toBeInViewport();
  }
});

for (const scheme of ['light', 'dark'] as const) {
  test(`no page of them breaks WCAG AA, ${scheme}`, async ({ page }) => {
    test.setTimeout(180_000); // axe is slow on a busy machine
    await page.emulateMedia({ colorScheme: scheme });
    for (const tab of tabs) {
      await page.goto(path(tab, tab === 'database' ? 'open=db+SELECT+items' : ''));
      await expect(page.getByTestId(tables[tab])).toBeVisible();
      if (tab === 'database') await expect(page.getByTestId('callers')).toBeVisible();
      expect(await accessFaults(page, scheme), tab).toEqual([]);
    }
  });
}
