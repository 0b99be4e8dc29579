// A rectangle of the heatmap is explained: by pointer, by key, from a link.
import { expect, test, type Page } from '@playwright/test';
import { pointAt, settled } from './page';
import { seedExplain, slowTenant, type ExplainSeed } from './seed-explain';

let s: ExplainSeed;
test.beforeAll(async () => {
  s = await seedExplain(process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099');
});

const path = (extra = '') => `/services/${s.service}?start=${s.start}&end=${s.end}&live=0${extra}`;
const panel = (page: Page) => page.getByTestId('explain');

/** Where a moment is in the picture, from its left. */
const at = (t: number) => (t - s.start) / (s.end - s.start);

test('a tall drag names the tenant that was slow for a while', async ({ page }) => {
  await page.goto(path());
  await settled(page);
  await expect(panel(page)).toBeHidden();
  await pointAt(page, at(s.from) + 0.01, 0.02);
  await page.mouse.down();
  await pointAt(page, at(s.from) + 0.1, 0.2);
  await expect(page.locator('text.hint')).toHaveText('explain');
  await pointAt(page, at(s.to) - 0.01, 0.34);
  await page.mouse.up();
  await expect(page).toHaveURL(/box=\d+_\d+_0\.[12]\d*_/);
  // It became slow: nothing else did.
  await expect(panel(page)).toContainText(new RegExp(`operation GET /search with tenant ${slowTenant}: 100 % of its requests are inside, [\\d.]+ % were before`));
  const rows = panel(page).getByRole('row');
  await expect(rows).toHaveCount(2);
  await expect(rows.nth(1)).toContainText(`operation GET /search with tenant ${slowTenant}`);
  await expect(panel(page)).toContainText(/\d+ of [\d,]+ were inside/);

  // Who is slow is the other question, by key.
  await panel(page).getByRole('button', { name: 'is slow', exact: true }).focus();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/against=rest/);
  await expect(panel(page).getByRole('button', { name: 'is slow', exact: true })).toHaveAttribute('aria-pressed', 'true');
  await expect(panel(page)).toContainText(`operation GET /search with tenant ${slowTenant}: 100 % of the requests inside`);
  await expect(rows.nth(1)).toContainText(`operation GET /search with tenant ${slowTenant}`);
  await expect(rows.nth(2)).toContainText(`tenant ${slowTenant}only with operation GET /search`);
  await expect(rows).toHaveCount(4);

  // It is a link, and lets go by key.
  await page.reload();
  await settled(page);
  await expect(rows.nth(1)).toContainText(slowTenant);
  await page.getByTestId('heatmap').focus();
  await page.keyboard.press('Escape');
  await expect(panel(page)).toBeHidden();
  await expect(page).not.toHaveURL(/box=|against=/);
});

test('without a cause it says so', async ({ page }) => {
  await page.goto(path(`&box=${s.from - 450}_${s.from}_0.02_`));
  await expect(panel(page)).toContainText('Nothing became slower here than it was from ');
});

test('a row filters the page, and links lead on', async ({ page }) => {
  await page.goto(path(`&box=${s.from}_${s.to}_0.15_&against=rest`));
  await settled(page);
  await panel(page).getByRole('button', { name: `operation GET /search with tenant ${slowTenant}` }).click();
  await expect(page).toHaveURL(new RegExp(`l\\.operation==GET\\+/search&l\\.tenant==${slowTenant}&`));
  await expect(panel(page)).toContainText('There is nothing to tell apart');
  await page.goBack();
  await panel(page).getByRole('button', { name: `tenant ${slowTenant}`, exact: true }).click();
  await expect(panel(page).getByRole('row').nth(1)).toContainText('operation GET /search100.0 %');
  await expect(panel(page).getByRole('link', { name: 'Slow requests inside' })).toHaveAttribute('href', new RegExp(`/slow\\?start=${s.from}&end=${s.to}.*min=0\\.15`));
  await expect(panel(page).getByRole('link', { name: 'Compare with the time before' })).toHaveAttribute('href', new RegExp(`/compare\\?.*b=${s.from}/${s.to}`));
});

test('by key, with the button, and what cannot be answered', async ({ page }) => {
  await page.goto(path());
  await settled(page);
  await page.getByTestId('heatmap').focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('x');
  for (let i = 0; i < 12; i++) await page.keyboard.press('Shift+ArrowRight');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/box=/);
  await expect(page).not.toHaveURL(/pin=/);
  await expect(panel(page)).toContainText('Inside the rectangle');
  await panel(page).getByRole('button', { name: 'let go of the rectangle' }).click();
  await expect(panel(page)).toBeHidden();

  // With the button even a flat drag draws one; what is usual is said to be so.
  await page.getByRole('button', { name: 'Explain a rectangle' }).click();
  await pointAt(page, 0.05, 0.9);
  await page.mouse.down();
  await pointAt(page, 0.1, 0.88);
  await pointAt(page, 0.28, 0.85);
  await page.mouse.up();
  await expect(page).toHaveURL(/box=/);
  await expect(page.getByRole('button', { name: 'Explain a rectangle' })).toHaveAttribute('aria-pressed', 'false');

  await page.goto(path(`&box=${s.start - 7200}_${s.start - 3600}_0.15_`));
  await expect(panel(page)).toContainText('lies outside the range shown');
  await page.route('**/api/v1/explain?*', (r) => r.fulfill({ status: 503, json: { error: { code: 'unavailable', message: 'the question took too long' } } }));
  await page.goto(path(`&box=${s.from}_${s.to}_0.15_`));
  await expect(panel(page).getByRole('alert')).toContainText('What is inside could not be read: the question took too long');
});
