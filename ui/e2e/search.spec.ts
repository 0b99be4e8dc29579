// One field finds pages, commands and names, by keys alone; and every chart is read by
// keys and spoken.
import { expect, test, type Page } from '@playwright/test';
import { accessFaults, known, openService, servicePath } from './page';
import type { Changed } from './seed-compare';

const palette = (page: Page) => page.getByTestId('palette');
const field = (page: Page) => page.getByRole('combobox', { name: 'Search' });
const chosen = (page: Page) => palette(page).locator('[role=option][aria-selected=true]');

test('a search opens what is there, in the same range, and gives the focus back', async ({ page }) => {
  const s = known();
  await openService(page);
  await page.getByTestId('heatmap').focus();
  await page.keyboard.press('/');
  await expect(field(page)).toBeFocused();
  expect(await accessFaults(page, 'light', 'dialog')).toEqual([]);
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('heatmap')).toBeFocused();

  // An operation of this service, a tenant, a page; what is nowhere is not found.
  await page.keyboard.press('/');
  await page.keyboard.type('items id');
  await expect(chosen(page)).toContainText('GET /items/{id}');
  await expect(chosen(page)).toHaveAttribute('id', (await field(page).getAttribute('aria-activedescendant')) ?? 'none');
  await field(page).fill('tenant-07');
  await expect(palette(page).getByRole('group', { name: 'Tenants' }).getByRole('option').first()).toContainText('tenant-07');
  await field(page).fill('no such thing');
  await expect(palette(page).getByRole('status')).toContainText('Nothing in this range is called “no such thing”');
  await expect(palette(page).getByRole('option')).toHaveCount(0);
  await field(page).fill('acme');
  await expect(chosen(page)).toContainText('acme');
  await page.keyboard.press('Enter');
  await expect(palette(page)).toHaveCount(0);
  await expect(page).toHaveURL(new RegExp(`/tenants\\?start=${s.start}&end=${s.end}&tenant=acme`));

  // A slash is typed into a field; Ctrl-K opens the search from there too.
  await page.goto(`/tenants?start=${s.start}&end=${s.end}`);
  const search = page.getByRole('searchbox', { name: 'Search tenants' });
  await search.focus();
  await page.keyboard.press('/');
  await expect(search).toHaveValue('/');
  await page.keyboard.press('Control+k');
  await expect(field(page)).toBeFocused();
  await page.keyboard.type('dark');
  await page.keyboard.press('Enter');
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');

  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator('header').getByRole('button', { name: /^Search/ }).click();
  await page.keyboard.type('compare two');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/compare\?/);
});

test('every chart is read by keys, and spoken', async ({ page }) => {
  test.setTimeout(180_000);
  const s = known();
  const c: Changed = JSON.parse(process.env.TAILSCOPE_SEED_COMPARE ?? '{}');
  const tried = JSON.parse(process.env.TAILSCOPE_SEED_EXPERIMENTS ?? '{}');
  const range = `start=${s.start}&end=${s.end}`;
  const middle = c.mark.time - 5;
  const pages: [path: string, least: number][] = [
    [`/?${range}`, 1], [servicePath(), 4], [`/services/${s.service}/sla?${range}`, 3], [`/tenants?${range}&l.service==${s.service}`, 1],
    [`/compare?l.service==${c.service}&a=${c.start}/${middle}&b=${middle}/${c.end}`, 3], [`/services/${c.service}/marks/${c.mark.id}`, 1],
    [`/sessions/${tried.bench}`, 3], [`/sessions/${tried.experiment}`, 1],
  ];
  for (const [path, least] of pages) {
    await page.goto(path);
    const charts = page.locator('main [tabindex="0"]:is([role=application], [role=group])');
    await expect(charts.nth(least - 1), `${path} has ${least} charts`).toBeVisible();
    await page.waitForLoadState('networkidle');
    for (const chart of await charts.all()) {
      if (!(await chart.isVisible())) continue;
      const name = await chart.getAttribute('aria-label');
      expect(name, path).toBeTruthy();
      await chart.focus();
      await page.keyboard.press('ArrowLeft');
      await expect(page.locator('main [data-testid=spoken]').filter({ hasText: /\d/ }), `${path}: ${name} is spoken`).not.toHaveCount(0);
      await page.keyboard.press('Escape');
      await expect(page.locator('main [data-testid=spoken]').filter({ hasText: /\d/ }), `${path}: ${name} is let go of`).toHaveCount(0);
    }
  }
});
