// No page scrolls sideways on a phone: what is wide scrolls inside itself.
import { expect, test, type Page } from '@playwright/test';
import { known, servicePath } from './page';
import type { Changed } from './seed-compare';
import { seedTraces } from './seed-traces';

const changed = (): Changed => JSON.parse(process.env.TAILSCOPE_SEED_COMPARE ?? '{}');

const tooWide = (page: Page) => page.evaluate(() => document.scrollingElement!.scrollWidth - innerWidth);

test('every page keeps the width of a phone', async ({ page }) => {
  test.setTimeout(180_000);
  const s = known();
  const c = changed();
  const kept = await seedTraces(process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099', s);
  const range = `start=${s.start}&end=${s.end}`;
  const tab = (name: string) => servicePath().replace('?', `/${name}?`);
  const middle = c.mark.time - 5;
  const paths = [
    `/?${range}`, '/', servicePath(), ...['breakdown', 'operations', 'database', 'external', 'slow', 'sla'].map(tab),
    `/tenants?${range}&l.service==${s.service}`, `/tenants?${range}&l.service==${s.service}&tenant=acme`,
    `/compare?l.service==${c.service}&a=${c.start}/${middle}&b=${middle}/${c.end}`, `/compare?l.service==${c.service}&by=mark&mark=${c.mark.id}&window=30m`,
    ...['days', 'label'].map((by) => `/compare?l.service==${c.service}&start=${c.start}&end=${c.end}&by=${by}`),
    '/marks', `/services/${c.service}/marks/${c.mark.id}`, `/families?${range}`, `/families/span_duration_seconds?${range}`, `/traces/${kept.failed}`,
  ];
  for (const path of paths) {
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(path);
    await expect(page.locator('main').locator('h1, h2').first(), path).toBeVisible();
    await page.waitForLoadState('networkidle');
    for (const width of [390, 375]) {
      await page.setViewportSize({ width, height: 844 });
      await expect.configure({ soft: true }).poll(() => tooWide(page), { message: `${path} at ${width}`, timeout: 2000 }).toBeLessThanOrEqual(0);
      // Nothing of the header is cut off, and the page's own name is in sight.
      const box = (title: string) => page.locator('header').getByTitle(title).boundingBox();
      if (await page.locator('header').getByTitle('Environment (e)').count()) expect.soft((await box('Environment (e)'))?.y, `one row at ${width}, ${path}`).toBe((await box('Time range'))?.y);
      for (const name of ['Search', 'Keys and gestures', 'Time range']) await expect.soft(page.locator('header').getByTitle(name), path).toBeInViewport({ ratio: 1 });
    }
  }
  await page.goto('/families');
  await expect(page.getByRole('navigation', { name: 'Main' }).locator('[aria-current]')).toBeInViewport({ ratio: 0.99 });
  await page.route('**/api/v1/marks?*', (r) => r.fulfill({ json: { marks: [] } }));
  await page.goto('/marks');
  await expect(page.getByTestId('no-marks')).toBeVisible();
  expect(await tooWide(page)).toBeLessThanOrEqual(0);
});

test('the words of a mark’s verdicts are whole on a phone', async ({ page }) => {
  const c = changed();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`/services/${c.service}/marks/${c.mark.id}`);
  const cell = page.getByTestId('mark-verdict').locator('tbody tr').first().locator('td').first();
  await expect(cell).toBeVisible();
  expect(await cell.evaluate((td) => td.querySelector('[data-testid=verdict-word]')!.getBoundingClientRect().right - td.getBoundingClientRect().right)).toBeLessThanOrEqual(0.5);
});

test('live is off where nothing moves, and says why', async ({ page }) => {
  const c = changed();
  await page.goto(`/compare?l.service==${c.service}&by=mark&mark=${c.mark.id}&window=30m`);
  const live = page.locator('header').getByRole('button', { name: 'live' });
  await expect(live).toBeDisabled();
  await expect(live).toHaveAttribute('title', /Watch, below/);
  await page.keyboard.press('l');
  await expect(page).not.toHaveURL(/live=/);
  await page.goto('/marks');
  await expect(live).toBeEnabled();
});
