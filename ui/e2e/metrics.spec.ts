// Families that arrive as metrics: distributions as heatmaps, numbers as lines.
import { expect, test } from '@playwright/test';
import { known, pointAt, reading, settled } from './page';
import { gaugeFamily, histogramCounts, histogramFamily } from './seed';

test('every family is listed and opens', async ({ page }) => {
  const s = known();
  await page.goto(`/families?start=${s.start}&end=${s.end}`);
  const table = page.getByTestId('families');
  await expect(table.getByRole('row').filter({ hasText: gaugeFamily })).toContainText('gauge');
  await expect(table.getByRole('row').filter({ hasText: histogramFamily })).toContainText('distribution');
  await expect(table.getByRole('row').filter({ hasText: 'span_duration_seconds' })).toBeVisible();
  // What nobody sent is kept apart.
  const own = page.getByTestId('own-families');
  await expect(page.getByRole('heading', { name: 'Made by Tailscope' })).toBeVisible();
  await expect(own.getByRole('row').filter({ hasText: 'breakdown_self' })).toContainText('microseconds of exclusive time, by part');
  await expect(table.getByText(/^breakdown_/)).toHaveCount(0);
  await table.getByRole('link', { name: histogramFamily }).click();
  await settled(page);
});

test('a histogram with explicit buckets is a heatmap of those buckets', async ({ page }) => {
  const s = known();
  await page.goto(`/families/${histogramFamily}?start=${s.start}&end=${s.end}&l.service==${s.service}`);
  await settled(page);
  // Its points come once a minute: find one, then read all of its cells.
  const map = page.getByTestId('heatmap');
  await map.focus();
  await page.keyboard.press('ArrowLeft');
  const first = await reading(page);
  expect(first.count % 100).toBe(0);
  const points = first.count / 100;
  const seen = new Map<number, number>();
  for (let i = 0; i < 8; i++) await page.keyboard.press('ArrowDown');
  for (let i = 0; i < 10; i++) {
    const r = await reading(page);
    if (r.at) seen.set(r.high, r.at);
    await page.keyboard.press('ArrowUp');
  }
  expect([...seen.values()]).toEqual(histogramCounts.map((n) => n * points));
  expect([...seen.keys()].slice(0, 3)).toEqual([0.01, 0.05, 0.2]);
});

test('a gauge is a line with its values', async ({ page }) => {
  const s = known();
  await page.goto(`/families/${gaugeFamily}?start=${s.start}&end=${s.end}&l.service==${s.service}`);
  await expect(page.getByRole('img', { name: /^Value\./ })).toHaveAttribute('aria-label', /from 20\.\d to 24\.9/);
});

test('a family that nobody sent says so', async ({ page }) => {
  await page.goto('/families/no_such_family');
  await expect(page.getByText('No metric of this name has been measured.')).toBeVisible();
});

test('the cursor reads families too', async ({ page }) => {
  const s = known();
  await page.goto(`/families/span_duration_seconds?start=${s.start}&end=${s.end}&l.service==${s.service}&l.kind==server`);
  await settled(page);
  await pointAt(page, 0.5, 0.5);
  expect((await reading(page)).text).toContain('requests are below the cursor');
});
