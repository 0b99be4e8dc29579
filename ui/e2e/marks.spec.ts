// What was found at a mark, without anybody having asked: in the list of
// services, in the list of marks, before and after it, and on its flag.
import { expect, test, type Page } from '@playwright/test';
import { accessFaults, settled } from './page';
import type { Changed } from './seed-compare';
import type { Mark, MarkVerdict } from '../src/shared/api/schema';

const seeded = (): Changed => JSON.parse(process.env.TAILSCOPE_SEED_COMPARE ?? '{}');

/** The mark, once it is judged: half a minute after it was named, for it was named after the fact. */
async function judged(page: Page, id: string): Promise<MarkVerdict> {
  let m: Mark | undefined;
  await expect
    .poll(async () => {
      m = await (await page.request.get(`/api/v1/marks/${id}`)).json();
      return m?.verdict?.state;
    }, { timeout: 60_000, intervals: [500] })
    .not.toBe('waiting');
  return m!.verdict!;
}

test('a mark is judged by itself, and its verdict is wherever the mark is', async ({ page }) => {
  test.setTimeout(120_000);
  const s = seeded();
  const v = await judged(page, s.mark.id);
  expect(v.verdict).toBe('regression');
  const row = v.services![0].operations!.find((r) => r.operation === 'GET /search')!;
  const p50 = row.measures!.find((m) => m.name === 'p50')!;
  expect(p50.raw.low!).toBeLessThan(s.ratio);
  expect(p50.raw.high!).toBeGreaterThan(s.ratio);
  expect(v.services![0].operations!.map((r) => r.operation)).not.toContain('POST /orders');

  await page.goto('/');
  const change = page.getByTestId('services').getByRole('row').filter({ hasText: s.service });
  await expect(change.getByRole('link', { name: s.mark.name })).toBeVisible();
  await expect(change.getByTestId('verdict-word')).toHaveText(/!\s*regression/);

  await page.getByRole('link', { name: 'Marks', exact: true }).click();
  await expect(page).toHaveURL(/\/marks(\?|$)/);
  const list = page.getByTestId('marks');
  const line = list.locator(`[data-mark="${s.mark.id}"]`);
  await expect(line.getByTestId('verdict-word')).toHaveText(/!\s*regression/);
  await expect(line).toContainText(v.sentence!.slice(0, 20));
  expect(await accessFaults(page, 'light')).toEqual([]);
  await page.getByLabel('Search marks').fill('no such mark');
  await expect(page.getByText('No mark contains “no such mark”.')).toBeVisible();
  await page.getByLabel('Search marks').fill('');
  await page.getByLabel('Service', { exact: true }).selectOption(s.service);
  await expect(page).toHaveURL(new RegExp(`l\\.service==${s.service}`));
  await expect(list.locator('tbody tr')).toHaveCount(1);

  await line.getByRole('link', { name: s.mark.name }).click();
  await expect(page).toHaveURL(new RegExp(`/services/${s.service}/marks/${s.mark.id}`));
  const found = page.getByTestId('mark-verdict');
  await expect(found).toHaveAttribute('data-verdict', 'regression');
  await expect(found.getByRole('row').filter({ hasText: 'GET /search' })).toContainText('slower');
  await found.getByText('Why to believe it').click();
  await expect(found).toContainText('every mark is judged by itself');
  await found.getByRole('link', { name: 'Compare in full' }).click();
  await expect(page).toHaveURL(new RegExp(`/compare\\?.*l\\.service==${s.service}`));
  await expect(page.getByTestId('verdict')).toHaveAttribute('data-verdict', /regression|mixed/);

  await page.goto(`/services/${s.service}?start=${s.start}&end=${s.end}`);
  await settled(page);
  await expect(page.getByRole('button', { name: s.mark.name }).first()).toHaveAttribute('title', /! regression/);
});

test('a new mark waits, and says until when; one that is deleted is gone', async ({ page }) => {
  const s = seeded();
  const posted: Mark = await (await page.request.post('/api/v1/marks', { data: { name: 'just now', service: `${s.service}-other` } })).json();
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto('/marks');
  const line = page.getByTestId('marks').locator(`[data-mark="${posted.id}"]`);
  await expect(line).toContainText('waiting');
  await expect(line).toContainText('judged at');
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  await page.request.delete(`/api/v1/marks/${posted.id}`);
  await page.reload();
  await expect(page.getByTestId('marks')).toBeVisible();
  await expect(line).toHaveCount(0);
});
