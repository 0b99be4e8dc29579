// Changes found without being told: drawn, told about, decided of.
import { expect, test, type Page } from '@playwright/test';
import { known, settled } from './page';
import { seedCompare, type Changed } from './seed-compare';

let data: Changed;

test.beforeAll(async () => {
  const s = known();
  data = await seedCompare(process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099', { service: s.service.replace('page-test', 'changes-test'), end: s.end - 1200 });
});

async function open(page: Page, extra = ''): Promise<void> {
  await page.goto(`/services/${data.service}?start=${data.start}&end=${data.end}${extra}`);
  await settled(page);
  await expect(page.getByTestId('changes-found')).toBeVisible();
  const folded = page.getByTestId('changes-found').getByRole('button', { name: /^Show \d/ });
  while (await folded.count()) await folded.first().click();
}

const flags = (page: Page) => page.getByTestId('change-flags').locator('[data-change]');
const rows = (page: Page) => page.getByTestId('changes-found').locator('.row');

/** The row of the searches' change, which is at the mark. */
const search = (page: Page) => rows(page).filter({ hasText: 'GET /search' }).filter({ hasText: 'near new index' });

test('a change is drawn where it was, and says what it is', async ({ page }) => {
  await open(page);
  await expect(search(page)).toContainText('slower');
  const found = flags(page).first();
  await expect(found).toHaveAttribute('aria-label', /Change found: .* is .* slower/);
  // The flag stands over the moment of the mark.
  const picture = (await page.getByTestId('heatmap').boundingBox())!;
  const xs = await flags(page).evaluateAll((all) => all.map((e) => e.getBoundingClientRect().left + e.getBoundingClientRect().width / 2));
  const at = picture.x + (picture.width * (data.mark.time - data.start)) / (data.end - data.start);
  expect(Math.min(...xs.map((x) => Math.abs(x - at)))).toBeLessThan(picture.width / 12);

  await found.focus();
  await page.keyboard.press('Enter');
  const card = page.getByTestId('change-card');
  await expect(card).toContainText('between');
  await expect(card.locator('tbody tr')).toHaveCount(5); // p50, p95, p99, errors, rate
  await expect(page).toHaveURL(/change=[0-9a-f]{16}/);
  await page.keyboard.press('Escape');
  await expect(card).toHaveCount(0);
  await expect(found).toBeFocused();
});

test('the open change is in the address, with its comparison and the mark that may be its cause', async ({ page }) => {
  await open(page, '&l.operation==GET+/search');
  await flags(page).first().click();
  const card = page.getByTestId('change-card');
  await expect(card).toContainText('Perhaps because of');
  await page.reload();
  await expect(card).toContainText('new index');
  const link = (await card.getByRole('link', { name: 'Compare' }).getAttribute('href'))!;
  expect(link).toMatch(/^\/compare\?/);
  const q = new URL(link, 'http://x').searchParams;
  expect(q.get('l.operation')).toBe('=GET /search');
  expect(q.get('l.service')).toBe(`=${data.service}`);
  const [a, b] = [q.get('a')!.split('/').map(Number), q.get('b')!.split('/').map(Number)];
  expect(a[0]).toBe(data.start);
  expect(Math.abs(b[1] - data.end)).toBeLessThanOrEqual(10); // the slot in which the data ends is whole
  expect(a[1]).toBeLessThanOrEqual(b[0]);
  await card.getByRole('button', { name: 'new index' }).click();
  await expect(page.getByRole('dialog', { name: 'new index' })).toBeVisible();
});

test('a dismissed change is gone until that is undone', async ({ page }) => {
  await open(page);
  const before = await flags(page).count();
  await flags(page).first().click();
  await page.getByTestId('change-card').getByRole('button', { name: 'Dismiss' }).click();
  await expect(flags(page)).toHaveCount(before - 1);
  await page.getByTestId('change-flags').getByRole('button', { name: 'Undo' }).click();
  await expect(flags(page)).toHaveCount(before);

  const one = search(page);
  await one.getByRole('button', { name: 'Dismiss' }).click();
  await expect(rows(page).filter({ hasText: 'dismissed' })).toHaveCount(1);
  const left = (await rows(page).count()) - 1;
  await open(page);
  await expect(rows(page)).toHaveCount(left);
  const all = await (await page.request.get(`/api/v1/changes?match={service="${data.service}"}&start=${data.start}&end=${data.end}&status=dismissed`)).json();
  expect(all.changes).toHaveLength(1);
  const { id, time, low, high, service, operation } = all.changes[0];
  await page.request.post('/api/v1/changes', { data: { id, time, low, high, service, operation, status: 'new' } });
});

test('a confirmed change is a mark of the name given, and can be taken back', async ({ page }) => {
  await open(page);
  const row = search(page);
  await row.getByRole('button', { name: /slower/ }).click();
  const name = page.getByRole('textbox', { name: 'Name of the mark' });
  await expect(name).toHaveValue(/GET \/search slower$/);
  await name.fill('the index was lost');
  await name.press('Enter');
  await expect(page.getByRole('button', { name: 'the index was lost' })).toBeVisible();
  const confirmed = rows(page).filter({ hasText: 'confirmed' });
  await expect(confirmed).toHaveCount(1);
  await confirmed.getByRole('button', { name: /slower/ }).click();
  await page.getByRole('button', { name: 'Take back' }).click();
  await expect(page.getByRole('button', { name: 'the index was lost' })).toHaveCount(0);
  await expect(search(page)).toHaveCount(1);
});

test('what cannot be searched says so, and the page stays', async ({ page }) => {
  await page.route('**/api/v1/changes?*', (r) => r.fulfill({ status: 503, contentType: 'application/json', body: '{"error":{"code":"unavailable","message":"too many questions are being worked on; try again in a moment"}}' }));
  await page.goto(`/services/${data.service}?start=${data.start}&end=${data.end}`);
  await settled(page);
  await expect(page.getByText('too many questions are being worked on')).toBeVisible();
  await expect(flags(page)).toHaveCount(0);
});

test('fits a phone', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await open(page);
  await flags(page).first().click();
  await expect(page.getByTestId('change-card')).toBeVisible();
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  const box = (await page.getByTestId('change-card').boundingBox())!;
  expect(box.x).toBeGreaterThanOrEqual(0);
  expect(box.x + box.width).toBeLessThanOrEqual(390);
});
