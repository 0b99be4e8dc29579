// Kept requests, their waterfall, and the way from the heatmap to one of them.
import { expect, test, type Page } from '@playwright/test';
import { value } from '../src/shared/text/format';
import { accessFaults, ask, known, settled } from './page';
import { seedTraces, type Traces } from './seed-traces';

let t: Traces;
test.beforeAll(async ({}, info) => {
  info.setTimeout(120_000);
  t = await seedTraces(process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099', known());
});

const slow = (extra = '') => `/services/${t.service}/slow?start=${t.start}&end=${t.end}${extra}`;
const tree = (page: Page) => page.getByTestId('waterfall');
const item = (page: Page, name: string | RegExp) => tree(page).getByRole('treeitem', { name });

interface Kept {
  traces: { trace_id: string; duration: number; operation: string; failed: boolean }[];
}

test('slow requests are those that the API has, and lead to their traces', async ({ page }) => {
  await page.goto(slow());
  const rows = page.getByTestId('slow').locator('tbody tr');
  const d = await ask<Kept>(page, 'traces', { match: `{service="${t.service}"}`, start: t.start, end: t.end, limit: 100 });
  expect(d.traces.length).toBeGreaterThan(5);
  await expect(rows).toHaveCount(d.traces.length);
  await expect(rows.first()).toContainText(value(d.traces[0].duration));
  await expect(rows.first()).toContainText('GET /large');
  await page.getByRole('button', { name: 'failed', exact: true }).click();
  await expect(page).toHaveURL(/why=failed/);
  await expect(rows).toHaveCount(1);
  await expect(rows.first()).toContainText('✕ failed');
  await rows.first().getByRole('link').first().click();
  await expect(page).toHaveURL(new RegExp(`/traces/${t.failed}`));
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('POST /things');
  await page.goBack();
  await expect(page).toHaveURL(/why=failed/);
  await expect(rows).toHaveCount(1);
});

test('a band of durations is asked of the server, and kept in the address', async ({ page }) => {
  await page.goto(slow());
  await page.getByLabel('from').fill('350 ms');
  await page.getByLabel('from').press('Enter');
  const rows = page.getByTestId('slow').locator('tbody tr');
  await expect(rows).toHaveCount(2);
  await expect(page).toHaveURL(/min=0\.35/);
  await page.reload();
  await expect(rows).toHaveCount(2);
  await page.getByLabel('from').fill('soon');
  await page.getByLabel('from').press('Enter');
  await expect(page.getByRole('alert')).toContainText('a duration with its unit');
  await page.goto(slow('&min=100'));
  await expect(page.getByText('No kept request matches.')).toBeVisible();
});

test('a waterfall says what failed, what went on, and asks the database without literals', async ({ page }) => {
  await page.goto(`/traces/${t.failed}`);
  await expect(page.getByTestId('trace-facts')).toContainText('✕ failed');
  await expect(page.getByTestId('trace-facts')).toContainText('400 ms');
  await expect(item(page, /^INSERT things.*failed.*slow/)).toBeVisible();
  await expect(item(page, /^tell others.*outlives its parent/)).toBeVisible();
  await item(page, /^INSERT things/).click();
  const details = page.getByTestId('span-details');
  await expect(details).toContainText('300 ms (75.0 %)');
  await expect(details).toContainText('INSERT INTO things');
  await expect(details).not.toContainText('secret');
  const components = page.getByTestId('trace-components');
  await expect(components.getByRole('columnheader', { name: 'database' })).toBeVisible();
  await expect(components).toContainText('300 ms 75.0 %');
});

test('clocks that disagree are said to', async ({ page }) => {
  await page.goto(`/traces/${t.skewed}`);
  await expect(page.getByText(new RegExp(`The clock of ${t.peer} is .* ahead of that of ${t.service}`))).toBeVisible();
  await item(page, /^GET \/inner.*moved against a clock/).click();
  await expect(page.getByTestId('span-details')).toContainText(/clock .* ahead, moved/);
});

test('the tree is walked by keys, zoomed, and is a link', async ({ page }) => {
  await page.goto(`/traces/${t.failed}`);
  await tree(page).focus();
  await page.keyboard.press('ArrowDown');
  await expect(item(page, /^POST \/things/)).toHaveAttribute('aria-selected', 'true');
  await page.keyboard.press('ArrowLeft');
  await expect(item(page, /^POST \/things/)).toHaveAttribute('aria-expanded', 'false');
  await expect(tree(page).getByRole('treeitem')).toHaveCount(1);
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  await expect(item(page, /^INSERT things/)).toHaveAttribute('aria-selected', 'true');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/zoom=/);
  await expect(tree(page).getByRole('treeitem')).toHaveCount(1);
  await page.reload();
  await expect(tree(page).getByRole('treeitem')).toHaveCount(1);
  await page.goBack();
  await expect(tree(page).getByRole('treeitem')).toHaveCount(3);
  await tree(page).focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('e');
  await expect(item(page, /^INSERT things/)).toHaveAttribute('aria-selected', 'true');
});

test('thousands of spans are drawn as far as they are seen', async ({ page }) => {
  await page.goto(`/traces/${t.large}`);
  await expect(item(page, /^GET \/large/)).toHaveAttribute('aria-expanded', 'false');
  await item(page, /^GET \/large/).click();
  await tree(page).focus();
  const began = Date.now();
  await page.keyboard.press('ArrowRight');
  await expect(item(page, /^part 0/).first()).toBeVisible();
  expect(Number(await tree(page).getAttribute('data-rows'))).toBeGreaterThan(1000);
  expect(await tree(page).getByRole('treeitem').count()).toBeLessThan(120);
  await page.keyboard.press('End');
  await expect(page.locator('[role=treeitem][aria-selected=true]')).toBeInViewport();
  expect(await tree(page).getByRole('treeitem').count()).toBeLessThan(120);
  expect(Date.now() - began).toBeLessThan(10_000);
});

test('a pin on the heatmap opens a request like it', async ({ page }) => {
  await page.goto(`/services/${t.service}?start=${t.start}&end=${t.end}&pin=${t.start + 306}&at=0.9`);
  await settled(page);
  await page.getByRole('button', { name: 'Open a request like this' }).click();
  await expect(page).toHaveURL(new RegExp(`/traces/${t.large}`));
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('GET /large');
  await page.goBack();
  await settled(page);
  // Where no request took as long, the nearest is offered and not passed off as one.
  await page.goto(`/services/${t.service}?start=${t.start}&end=${t.end}&pin=${t.start + 306}&at=30`);
  await settled(page);
  await page.getByRole('button', { name: 'Open a request like this' }).click();
  await expect(page.getByRole('status').filter({ hasText: 'None as this one is kept; the nearest is' })).toBeVisible();
});

test('a trace that is not kept says what is', async ({ page }) => {
  await page.goto('/traces/0af7651916cd43dd8448eb211c80319c');
  await expect(page.getByRole('heading', { name: 'This trace is not kept' })).toBeVisible();
  await expect(page.getByText('The distributions still count every request.')).toBeVisible();
});

for (const scheme of ['light', 'dark'] as const) {
  test(`slow requests and waterfall keep WCAG AA and a phone’s width, ${scheme}`, async ({ page }) => {
    test.setTimeout(180_000);
    await page.emulateMedia({ colorScheme: scheme });
    for (const [path, there] of [[slow(), 'slow'], [`/traces/${t.failed}`, 'waterfall']]) {
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.goto(path);
      await expect(page.getByTestId(there)).toBeVisible();
      if (there === 'waterfall') await item(page, /^INSERT things/).click();
      expect(await accessFaults(page, scheme), path).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      await expect(page.getByTestId(there)).toBeVisible();
      await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    }
  });
}
