// The log book: runs of load and experiments, as their programs reported them.
import { expect, test } from '@playwright/test';
import { accessFaults } from './page';
import { benchReport, put, experimentReport, type Tried } from './seed-experiments';

const server = process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099';
const known = (): Tried => JSON.parse(process.env.TAILSCOPE_SEED_EXPERIMENTS ?? '{}');

test('the list tells kinds apart, and the server searches it', async ({ page }) => {
  const t = known();
  await page.goto('/sessions');
  await expect(page.locator(`[data-session="${t.experiment}"]`)).toContainText('mixed');
  await expect(page.locator(`[data-session="${t.invalid}"]`)).toContainText('✕ Invalid');
  await page.getByRole('button', { name: 'Bench', exact: true }).click();
  await expect(page).toHaveURL(/kind=bench/);
  await expect(page.locator(`[data-session="${t.experiment}"]`)).toHaveCount(0);
  await page.getByRole('button', { name: 'All kinds' }).click();
  await page.getByLabel('Search the log book').fill('only queue');
  await expect(page.locator(`[data-session="${t.bench}"]`)).toHaveCount(0);
  await expect(page.locator(`[data-session="${t.experiment}"]`)).toBeVisible();
  await page.getByLabel('Search the log book').fill('no such thing');
  await expect(page.getByText('Nothing has “no such thing”')).toBeVisible();
  // Clearing it brings everything back without letting go of the field.
  await page.getByLabel('Search the log book').fill('');
  await expect(page.locator(`[data-session="${t.bench}"]`)).toBeVisible();
  await expect(page.getByLabel('Search the log book')).toBeFocused();
  // The log book has no range: a link to it from a narrow one shows all.
  await page.goto('/sessions?start=1000&end=2000&kind=bench&state=ended');
  await expect(page.locator(`[data-session="${t.bench}"]`)).toBeVisible();
  await expect(page.locator(`[data-session="${t.experiment}"]`)).toHaveCount(0);
});

test('a run of load: both clocks, one time line, an account that closes', async ({ page }) => {
  const t = known();
  const b = benchReport(t.service, t.start, true).bench;
  await page.goto(`/sessions/${t.bench}`);
  await expect(page.getByTestId('invalid')).toHaveCount(0);
  await expect(page.getByTestId('bench-headline')).toContainText('p99 621 ms at 500 requests/s');
  await expect(page.getByTestId('bench-facts')).toContainText('asked 500/s');
  await expect(page.getByTestId('sheet-clocks').locator('tr', { hasText: 'p99.9' }).first()).toContainText('ms');
  await expect(page.getByTestId('sheet-account')).toContainText('The account closes');
  await expect(page.getByTestId('sheet-thresholds').locator('tbody tr').first()).toContainText('missed');
  await expect(page.getByTestId('compare-cdf')).toBeVisible();
  const time = page.getByTestId('bench-time');
  await expect(time.getByTestId('state-strip')).toContainText('faults');
  await time.getByRole('group', { name: /^Latency from when due/ }).focus();
  await page.keyboard.press('Home');
  await expect(time).toContainText(/p99\s*\d/);
  await expect(time.getByTestId('spoken').first()).toContainText(/p99 \d/);
  const first = page.getByTestId('sheet-queries').locator('tbody tr').first();
  await page.getByTestId('sheet-queries').getByRole('button', { name: 'p50' }).click();
  await page.getByTestId('sheet-queries').getByRole('button', { name: 'p50' }).click();
  await expect(first).toContainText('wildcard');
  await expect(page).toHaveURL(/sort=queries/);
  await expect(page.getByText(b.command)).toBeVisible();
  await page.getByTestId('log').locator('summary').click();
  await expect(page.getByTestId('log')).toContainText('fault');
  await page.getByRole('link', { name: 'Its heatmap' }).click();
  await expect(page).toHaveURL(/families\/bench_duration_seconds\?.*l.experiment/);
});

test('a run that does not count says so before any figure', async ({ page }) => {
  await page.goto(`/sessions/${known().invalid}`);
  const alarm = page.getByTestId('invalid');
  await expect(alarm).toContainText('p99 of late sends is 310 ms');
  const [a, b] = [await alarm.boundingBox(), await page.getByTestId('bench-facts').boundingBox()];
  expect(a!.y).toBeLessThan(b!.y);
});

test('an experiment: settings, every round, the best that cannot be told apart', async ({ page }) => {
  const t = known();
  await page.goto(`/sessions/${t.experiment}`);
  await expect(page.getByTestId('hypothesis')).toContainText('more workers than cores only queue');
  await expect(page.getByTestId('experiment-headline')).toContainText('mixed');
  await expect(page.getByTestId('stopping')).toContainText('12 of 12 rounds done');
  await expect(page.getByTestId('experiment-alarm')).toHaveCount(0);
  const plot = page.getByTestId('experiment-plot');
  await expect(plot.locator('.round')).toHaveCount(60);
  await expect(plot.locator('.round.hollow')).toHaveCount(1);
  await expect(plot.locator('.best')).toHaveCount(2);
  await plot.focus();
  await page.keyboard.press('Home');
  await expect(page.getByText('round 3 does not count: the generator was late')).toBeVisible();
  await page.getByLabel('query', { exact: true }).selectOption('large');
  await expect(page).toHaveURL(/query=large/);
  await page.getByLabel('setting', { exact: true }).selectOption('workers=24');
  await expect(page.getByTestId('mirror-querys').locator('tbody tr')).toHaveCount(3);
  await expect(page.getByTestId('experiment-settings').locator('[data-setting="workers=24"] .whisker')).toHaveCount(1);
  await page.getByTestId('experiment-settings').locator('[data-setting="workers=24"]').getByRole('link', { name: 'Compare' }).click();
  await expect(page).toHaveURL(/a=workers=8&b=workers=24&label=variant/);
  await page.goto(`/sessions/${t.experiment}`);
  await page.getByTestId('repetitions').getByRole('link').first().click();
  await expect(page.getByTestId('experiment-alarm')).toContainText('The control was not restored: ./reload.sh 8');
});

test('one that runs is told to stop, and shows where it stands', async ({ page }) => {
  const t = known();
  const live = () => put(server, t.running, experimentReport(t.service, t.start, 7, false));
  expect((await live()).stop).toBeFalsy();
  await page.goto(`/sessions/${t.running}`);
  await expect(page.getByTestId('experiment-progress')).toContainText('round 8 of 12');
  await expect(page.getByTestId('experiment-alarm')).toHaveCount(0);
  await page.getByRole('button', { name: 'Stop…' }).click();
  await expect(page.getByRole('dialog')).toContainText('applies the control again');
  await page.getByRole('button', { name: 'Stop it' }).click();
  await expect(page.getByRole('button', { name: 'Asked to stop' })).toBeDisabled();
  expect((await live()).stop).toBe(true);
  await put(server, t.running, experimentReport(t.service, t.start, 7, true));
});

for (const scheme of ['light', 'dark'] as const) {
  test(`runs and experiments keep WCAG AA and the width of a phone, ${scheme}`, async ({ page }) => {
    test.setTimeout(120_000);
    await page.emulateMedia({ colorScheme: scheme });
    for (const id of [known().bench, known().invalid, known().experiment, `${known().experiment}-before`]) {
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.goto(`/sessions/${id}`);
      await expect(page.locator('.run h2').first()).toBeVisible();
      expect(await accessFaults(page, scheme), id).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      await expect.poll(() => page.evaluate(() => document.scrollingElement!.scrollWidth - innerWidth), { message: id }).toBeLessThanOrEqual(0);
    }
  });
}
