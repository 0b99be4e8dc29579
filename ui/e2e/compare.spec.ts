// The page of comparisons, against a service whose searches take 1.4 times as
// long after a mark.
import { expect, test, type Page } from '@playwright/test';
import type { CompareResponse } from '../src/shared/api/schema';
import { effectWords, judged } from '../src/shared/verdict/words';
import { accessFaults, ask } from './page';
import type { Changed } from './seed-compare';

const known = (): Changed => JSON.parse(process.env.TAILSCOPE_SEED_COMPARE ?? '{}');
const filter = () => `l.service==${known().service}`;
const middle = () => known().mark.time - 5;
const windows = () => ({ a: `${known().start}/${middle()}`, b: `${middle()}/${known().end}` });

async function open(page: Page, query: string): Promise<void> {
  await page.goto(`/compare?${filter()}&${query}`);
  await judgedPage(page);
}

async function judgedPage(page: Page): Promise<void> {
  await expect(page.getByTestId('verdict')).toBeVisible();
  await expect(page.locator('.answer')).toHaveAttribute('aria-busy', 'false');
}

test('a mark is judged as the API judges it', async ({ page }) => {
  const k = known();
  await open(page, `by=mark&mark=${k.mark.id}&window=30m&l.operation==GET+/search`);
  const r = await ask<CompareResponse>(page, 'compare', { match: `{service="${k.service}",operation="GET /search"}`, mark: k.mark.id, window: '30m' });
  expect(r.verdict).toBe('regression');
  await expect(page.getByTestId('verdict')).toHaveAttribute('data-verdict', 'regression');
  await expect(page.getByTestId('verdict')).toContainText(r.sentence);
  await expect(page.getByTestId('verdict')).toContainText(`before ${k.mark.name}`);
  for (const name of ['p50', 'p95', 'mean']) {
    const m = r.measures!.find((x) => x.name === name)!;
    const f = judged(m);
    const row = page.locator(`[data-measure="${name}"]`);
    expect(Number(await row.getAttribute('data-low'))).toBeCloseTo(f.low!, 9);
    expect(Number(await row.getAttribute('data-high'))).toBeCloseTo(f.high!, 9);
    await expect(row).toContainText(effectWords(m, f).interval);
    await expect(row.getByTestId('verdict-word')).toHaveText(/↑\s*slower/);
    expect(f.low!).toBeLessThan(k.ratio);
    expect(f.high!).toBeGreaterThan(k.ratio);
  }
  await expect(page.getByRole('link', { name: `the page of ${k.mark.name}` })).toHaveAttribute('href', new RegExp(`/services/${k.service}/marks/${k.mark.id}`));
});

test('the operation that changed leads the list, and leads to itself', async ({ page }) => {
  const w = windows();
  await open(page, `a=${w.a}&b=${w.b}`);
  const row = page.getByTestId('changed-operations').first().locator('tbody tr').first();
  await expect(row).toContainText('GET /search');
  await expect(page.getByText('1 without evidence of a change').first()).toBeVisible();
  await row.getByRole('link').click();
  await judgedPage(page);
  await expect(page).toHaveURL(/l\.operation==GET/);
  await expect(page.getByTestId('verdict')).toContainText('GET /search');
});

test('the difference heatmap is drawn, and read by keys', async ({ page }) => {
  const w = windows();
  await open(page, `a=${w.a}&b=${w.b}`);
  const heat = page.getByTestId('difference-heat');
  await expect.poll(async () => Number(await heat.locator('canvas').getAttribute('data-drawn'))).toBeGreaterThan(200);
  // Blue and orange are both there: red minus blue of the pixels on either side.
  const hues = await heat.locator('canvas').evaluate((c: HTMLCanvasElement) => {
    const d = c.getContext('2d')!.getImageData(0, 0, c.width, c.height).data;
    let warm = 0;
    let cold = 0;
    for (let i = 0; i < d.length; i += 4) {
      if (!d[i + 3]) continue;
      if (d[i] - d[i + 2] > 60) warm++;
      if (d[i + 2] - d[i] > 60) cold++;
    }
    return { warm, cold };
  });
  expect(hues.warm).toBeGreaterThan(1000);
  expect(hues.cold).toBeGreaterThan(1000);
  const host = heat.getByRole('application');
  await expect(host).toHaveAttribute('aria-label', /On average .* the largest gain is at .* the largest loss at/);
  await host.focus();
  await page.keyboard.press('ArrowRight');
  await expect(heat.locator('.reading')).toContainText(/^B, .*requests: (.*points|as expected) at /);
  await page.keyboard.press('Escape');
  await expect(heat.locator('.reading')).toContainText('On average');
});

test('both distributions and the ratio are read by keys', async ({ page }) => {
  const w = windows();
  await open(page, `a=${w.a}&b=${w.b}`);
  await page.getByTestId('compare-cdf').focus();
  await page.keyboard.press('ArrowRight');
  await expect(page.locator('.reading').filter({ hasText: /Up to .* of A’s requests, .* of B’s/ })).toBeVisible();
  await page.getByRole('button', { name: 'beyond, log' }).click();
  await expect(page).toHaveURL(/tail=1/);
  await page.getByTestId('compare-ratio').focus();
  await page.keyboard.press('Home');
  await expect(page.locator('.reading').filter({ hasText: /^p1: .*%.* → / })).toBeVisible();
});

test('the sides are chosen in the address: swap, days, values, back', async ({ page }) => {
  const w = windows();
  await open(page, `a=${w.a}&b=${w.b}`);
  const sides = page.getByTestId('compare-sides');
  await sides.getByRole('button', { name: 'Swap sides' }).click();
  await expect(page).toHaveURL(new RegExp(`a=${w.b}&b=${w.a}`));
  await expect(page.getByTestId('verdict')).toHaveAttribute('data-verdict', 'improvement');
  await page.goBack();
  await expect(page.getByTestId('verdict')).toHaveAttribute('data-verdict', 'regression');

  // A window moves by keys.
  const b = page.getByRole('slider', { name: /^Window B/ });
  await b.focus();
  await page.keyboard.press('ArrowRight');
  await expect(page).not.toHaveURL(new RegExp(`b=${w.b}`));
  await page.goBack();
  await expect(page).toHaveURL(new RegExp(`b=${w.b}`));

  await page.goto(`/compare?${filter()}&start=${known().start}&end=${known().end}&by=label`);
  await judgedPage(page);
  await expect(page).toHaveURL(/label=version/);
  await expect(page).toHaveURL(/a=1\.0&b=1\.1/);
  await expect(page.getByTestId('verdict')).toContainText('1.1');
  const address = page.url();
  await page.reload();
  await judgedPage(page);
  expect(page.url()).toBe(address);

  await sides.getByRole('button', { name: 'Earlier days' }).click();
  await expect(page).toHaveURL(/by=days/);
  await expect(page.getByTestId('compare-empty')).toContainText('Side A has no request');
});

test('watching asks for intervals that hold at every look', async ({ page }) => {
  await open(page, 'a=now-4h/now-50m&b=now-50m/now');
  const asked = page.waitForRequest((r) => r.url().includes('/api/v1/compare') && r.url().includes('live=true'));
  await page.getByRole('button', { name: 'Watch' }).click();
  await asked;
  await expect(page).toHaveURL(/watch=1/);
  await expect(page.getByText('Looking is safe')).toBeVisible();
});

test('what the server refuses is said at the control', async ({ page }) => {
  const k = known();
  await page.goto(`/compare?${filter()}&a=${k.start}/${middle()}&b=${middle()}/${middle() + 3}`);
  await expect(page.getByRole('alert')).toContainText('slot of 10 s');
  await expect(page.getByLabel('B to', { exact: true })).toHaveAttribute('aria-invalid', 'true');
  await page.goto(`/compare?${filter()}&a=${k.start}/${middle()}&b=${middle() - 100}/${k.end}`);
  await expect(page.getByRole('alert')).toContainText('overlap');
});

test('where nobody chose, it begins with the latest mark', async ({ page }) => {
  await page.goto(`/compare?${filter()}`);
  await expect(page).toHaveURL(/by=mark&mark=/);
  await expect(page.getByTestId('measures')).toBeVisible({ timeout: 30_000 });
  // Windows that were asked for stay.
  await page.getByRole('button', { name: 'Two windows' }).click();
  await expect(page).toHaveURL(/a=now-2h/);
});

test('a service without data says what to do', async ({ page }) => {
  await page.goto('/compare?l.service==nobody-sends-this');
  await expect(page.getByRole('alert')).toContainText('there is no service');
  await expect(page.getByRole('alert')).toContainText('/api/v1/labels');
});

test('from a service to its comparison', async ({ page }) => {
  const k = known();
  await page.goto(`/services/${k.service}?start=${middle()}&end=${k.end}&l.operation==GET+/search`);
  await page.getByRole('navigation', { name: 'Of this service' }).getByRole('link', { name: 'Compare' }).click();
  await judgedPage(page);
  await expect(page).toHaveURL(new RegExp(`/compare\\?.*l\\.operation==GET.*l\\.service==${k.service}`));
  // What was in sight is B, what was before it A.
  await expect(page.getByTestId('verdict')).toHaveAttribute('data-verdict', 'regression');
});

for (const scheme of ['light', 'dark'] as const) {
  test(`the page does not break WCAG AA, ${scheme}`, async ({ page }) => {
    test.setTimeout(120_000);
    await page.emulateMedia({ colorScheme: scheme });
    const w = windows();
    for (const query of [`a=${w.a}&b=${w.b}&tail=1`, `by=mark&mark=${known().mark.id}&window=30m`]) {
      await open(page, query);
      await page.getByTestId('compare-why').locator('summary').click();
      await page.getByTestId('compare-cdf').focus();
      await page.keyboard.press('ArrowRight');
      expect(await accessFaults(page, scheme), query).toEqual([]);
    }
  });
}

test('a phone shows all of it without scrolling sideways', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  const w = windows();
  await open(page, `a=${w.a}&b=${w.b}`);
  await expect(page.getByTestId('compare-ratio')).toBeVisible();
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  await page.getByRole('button', { name: 'Earlier days', exact: true }).click();
  await expect(page.getByTestId('compare-empty')).toBeVisible();
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});
