import { expect, test } from '@playwright/test';
import { count, percent, value } from '../src/shared/text/format';
import type { DistributionResponse, HeatmapResponse, MarksOf } from './types';
import { ask, known, openService, pointAt, reading, servicePath, settled } from './page';

const match = () => `{service="${known().service}",kind="server"}`;

test('the services overview agrees with the API', async ({ page }) => {
  const s = known();
  await page.goto(`/?start=${s.start}&end=${s.end}`);
  const row = page.getByTestId('services').getByRole('row').filter({ hasText: s.service });
  await expect(row).toBeVisible();
  const d = await ask<DistributionResponse>(page, 'distribution', { match: match(), start: s.start, end: s.end, q: '0.5,0.95,0.99' });
  const g = d.groups[0];
  expect(g.count).toBe(s.requests);
  await expect(row).toContainText(`${count(s.requests)} requests`);
  // Figures are those of the last minute; of the whole range they are in the titles.
  const now = await ask<DistributionResponse>(page, 'distribution', { match: match(), start: s.end - 60, end: s.end, q: '0.5,0.99' });
  const last = now.groups[0];
  await expect(row.locator('[data-name=Errors]')).toHaveAttribute('title', /whole range: 1\.0 %/); // one in a hundred
  for (const [name, q] of [['p50', '0.5'], ['p99', '0.99']]) {
    await expect(row.locator(`[data-name=${name}]`)).toContainText(value(last.quantiles[q]));
    await expect(row.locator(`[data-name=${name}]`)).toHaveAttribute('title', new RegExp(`whole range: ${value(g.quantiles[q])}`));
  }
  // A strip reads shares, by pointer and by keys.
  const strip = row.getByTestId('strip');
  const reads = /^\d\d:\d\d(:\d\d)?, [<>]? ?[\d.]+ % of [\d,]+ requests are below [\d.,]+ (µs|ms|s)$/;
  const box = (await strip.boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + 14);
  await expect(page.getByTestId('strip-reading')).toHaveText(reads);
  await page.mouse.move(0, 0);
  await expect(page.getByTestId('strip-reading')).toHaveCount(0);
  await strip.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowUp');
  await expect(page.getByTestId('strip-reading')).toHaveText(reads);
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('strip-reading')).toHaveCount(0);
  await row.getByRole('link', { name: s.service }).click();
  await settled(page);
  await expect(page.getByRole('heading', { level: 1 })).toHaveText(s.service);
});

test('the first page says what is wrong, and leads there', async ({ page }) => {
  await page.goto('/');
  const now = page.getByTestId('now');
  await expect(now).toContainText('What is wrong');
  const bad = now.getByRole('listitem').filter({ hasText: 'page test bad' });
  await expect(bad).toContainText('CRITICAL');
  await expect(bad).toContainText(/since .* CET/);
  await expect(now).toHaveAttribute('aria-busy', 'false', { timeout: 30_000 });
  await bad.getByRole('link', { name: /page test bad/ }).click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('page test bad');
});

test('the cursor reads the shares that the API gives', async ({ page }) => {
  await openService(page);
  let read = 0;
  for (const fx of [0.13, 0.5, 0.87]) {
    for (const fy of [0.15, 0.35, 0.5, 0.62, 0.8]) {
      await pointAt(page, fx, fy);
      const r = await reading(page);
      expect(r.state).toBe('reading');
      // A cell is one bucket or a few: ask for its lowest and its highest value.
      const inside = [r.low * (1 + 1e-6), r.high * (1 - 1e-6)];
      const d = await ask<DistributionResponse>(page, 'distribution', { match: match(), start: r.start, end: r.end, at: inside.join(',') });
      const g = d.groups[0];
      expect(r.count).toBe(g.count);
      expect(r.below).toBeCloseTo(g.at[0].below, 9);
      expect(r.above).toBeCloseTo(g.at[1].above, 9);
      expect(r.same).toBeCloseTo(1 - g.at[0].below - g.at[1].above, 9);
      expect(r.text).toContain(`${percent(r.below)} of the ${count(r.count)} requests are below the cursor, ${percent(r.same)} at it (`);
      expect(r.text).toContain(`${percent(r.above)} above`);
      expect(r.text).toContain('CET');
      read++;
    }
  }
  expect(read).toBe(15);
});

test('the read-out is never under the pointer and does not move what is below it', async ({ page }) => {
  await openService(page);
  const table = page.getByTestId('operations');
  // The charts above it come after the picture.
  await page.waitForLoadState('networkidle');
  let before = await table.boundingBox();
  await expect(async () => {
    const last = before;
    before = await table.boundingBox();
    expect(before).toEqual(last);
  }).toPass({ intervals: [300] });
  for (const [fx, fy] of [[0.02, 0.05], [0.98, 0.05], [0.98, 0.95], [0.5, 0.5]]) {
    const p = await pointAt(page, fx, fy);
    const box = await page.getByTestId('readout').boundingBox();
    if (!box) throw new Error('no read-out');
    const inside = p.x >= box.x && p.x <= box.x + box.width && p.y >= box.y && p.y <= box.y + box.height;
    expect(inside).toBe(false);
    expect(await table.boundingBox()).toEqual(before);
  }
});

test('what comes late moves nothing that is there', async ({ page }) => {
  for (const late of ['labels', 'timeline', 'apdex', 'changes', 'checks']) {
    await page.route(`**/api/v1/${late}?*`, async (r) => {
      await new Promise((done) => setTimeout(done, 1500));
      await r.continue();
    });
    await openService(page);
    const picture = await page.getByTestId('heatmap').boundingBox();
    const table = await page.getByTestId('operations').boundingBox();
    await page.waitForLoadState('networkidle');
    expect(await page.getByTestId('heatmap').boundingBox(), late).toEqual(picture);
    expect(await page.getByTestId('operations').boundingBox(), late).toEqual(table);
    await page.unrouteAll({ behavior: 'wait' });
  }
});

test('a click pins a moment and draws its histogram', async ({ page }) => {
  await openService(page);
  await pointAt(page, 0.5, 0.6);
  const r = await reading(page);
  await page.mouse.down();
  await page.mouse.up();
  await page.mouse.move(2, 2);
  await expect(page).toHaveURL(/[?&]pin=\d+/);
  const kept = await reading(page);
  expect([kept.start, kept.count, kept.below]).toEqual([r.start, r.count, r.below]);
  expect(kept.text).toContain('are below the pin');
  await expect(page.getByRole('img', { name: /^Histogram of .*CET: / })).toHaveAttribute('aria-label', new RegExp(`${count(r.count)} requests`));
  await page.reload();
  await settled(page);
  expect((await reading(page)).start).toBe(r.start);
  await page.getByRole('button', { name: 'Unpin' }).click();
  await expect(page).not.toHaveURL(/pin=/);
});

test('the keys move the cursor by cell, pin, zoom and let go', async ({ page }) => {
  await openService(page);
  const map = page.getByTestId('heatmap');
  const step = Number(await map.getAttribute('data-step'));
  await map.focus();
  await page.keyboard.press('End');
  const end = await reading(page);
  expect(end.end).toBe(Number(await map.getAttribute('data-end')));
  await page.keyboard.press('ArrowLeft');
  expect((await reading(page)).start).toBe(end.start - step);
  await page.keyboard.press('Shift+ArrowLeft');
  expect((await reading(page)).start).toBe(end.start - 11 * step);
  const here = await reading(page);
  await page.keyboard.press('ArrowUp');
  const up = await reading(page);
  expect(up.low).toBeCloseTo(here.high, 12);
  await page.keyboard.press('ArrowDown');
  expect((await reading(page)).low).toBe(here.low);
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/pin=/);
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/pin=/);
  await page.keyboard.press('Escape');
  expect((await reading(page)).state).toBe('idle');

  await page.keyboard.press('Home');
  await page.keyboard.press('z');
  for (let i = 0; i < 3; i++) await page.keyboard.press('Shift+ArrowRight');
  const to = await reading(page);
  await page.keyboard.press('z');
  await expect(page).toHaveURL(new RegExp(`start=${known().start}&end=${to.end}`));
  await page.keyboard.press('b');
  await expect(page).toHaveURL(new RegExp(`end=${known().end}`));

  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keys and gestures' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toBeHidden();
});

test('dragging zooms in time, Back returns', async ({ page }) => {
  await openService(page);
  const map = page.getByTestId('heatmap');
  const whole = { start: Number(await map.getAttribute('data-start')), end: Number(await map.getAttribute('data-end')) };
  await pointAt(page, 0.25, 0.5);
  await page.mouse.down();
  await pointAt(page, 0.4, 0.48);
  await pointAt(page, 0.5, 0.46);
  await page.mouse.up();
  await expect(page).not.toHaveURL(new RegExp(`end=${whole.end}`));
  await expect.poll(async () => Number(await map.getAttribute('data-end'))).toBeLessThan(whole.end);
  const start = Number(await map.getAttribute('data-start'));
  const end = Number(await map.getAttribute('data-end'));
  const span = whole.end - whole.start;
  expect(Math.abs(start - (whole.start + span * 0.25))).toBeLessThan(60);
  expect(Math.abs(end - (whole.start + span * 0.5))).toBeLessThan(60);
  await page.goBack();
  await expect.poll(async () => Number(await map.getAttribute('data-end'))).toBe(whole.end);
  await page.goForward();
  await expect.poll(async () => Number(await map.getAttribute('data-end'))).toBe(end);
  await map.dblclick({ position: { x: 40, y: 40 } });
  await expect.poll(async () => Number(await map.getAttribute('data-end'))).toBe(whole.end);
});

test('the whole view is in the address', async ({ page }) => {
  await openService(page);
  const view = page.locator('[data-popover="view"]');
  await view.click();
  await page.getByRole('button', { name: 'linear' }).click();
  await page.getByRole('button', { name: 'log count' }).click();
  await page.getByLabel('cap').fill('60 ms');
  await page.getByLabel('cap').press('Enter');
  await page.getByRole('checkbox', { name: 'p50' }).check();
  await page.getByRole('checkbox', { name: 'mean' }).uncheck();
  await expect(page).toHaveURL(/axis=linear&cap=0.06&scale=log&show=p50,p95,p99/);
  await page.reload();
  await settled(page);
  await view.click();
  await expect(page.getByRole('button', { name: 'linear' })).toHaveAttribute('aria-pressed', 'true');
  await expect(page.getByLabel('cap')).toHaveValue('60 ms');
  await expect(page.getByRole('checkbox', { name: 'mean' })).not.toBeChecked();
  await page.goBack();
  await expect(page).not.toHaveURL(/cap=/);
  await expect(page.getByLabel('cap')).toHaveValue('');
});

test('the cap has a band that counts what lies beyond it', async ({ page }) => {
  const s = known();
  await openService(page, 'axis=linear&cap=0.2');
  const d = await ask<DistributionResponse>(page, 'distribution', { match: match(), start: s.start, end: s.end, at: '0.2' });
  const want = Math.round(d.groups[0].at[0].above * d.groups[0].count);
  expect(want).toBeGreaterThan(0);
  await expect(page.getByTestId('beyond')).toHaveAttribute('data-count', String(want));
  await expect(page.getByTestId('beyond')).toContainText('lie beyond 200 ms');
  await pointAt(page, 0.5, 0.01);
  const r = await reading(page);
  expect(r.text).toMatch(/at it \(beyond \d+ ms\), 0\.0 % above/);
  const column = await ask<DistributionResponse>(page, 'distribution', { match: match(), start: r.start, end: r.end, at: '0.2' });
  expect(r.same).toBeCloseTo(column.groups[0].at[0].above, 9);
});

test('the wheel zooms the axis, only after a click', async ({ page }) => {
  await openService(page);
  await pointAt(page, 0.5, 0.6);
  await page.mouse.wheel(0, -300);
  await expect(page).not.toHaveURL(/cap=/);
  await page.mouse.down();
  await page.mouse.up();
  await page.mouse.wheel(0, -300);
  await expect(page).toHaveURL(/cap=/);
  await page.keyboard.press('0');
  await expect(page).not.toHaveURL(/cap=/);
});

test('filters narrow everything and are in the address', async ({ page }) => {
  const s = known();
  await openService(page);
  await page.getByTestId('operations').getByRole('button', { name: 'POST /items' }).click();
  await expect(page).toHaveURL(/l\.operation==POST\+\/items/);
  await settled(page);
  const h = await ask<HeatmapResponse>(page, 'heatmap', { match: `{service="${s.service}",kind="server",operation="POST /items"}`, start: s.start, end: s.end, width: 300 });
  expect(h.count).toBe(s.operations['POST /items']);
  await expect(page.getByTestId('heatmap')).toHaveAttribute('aria-label', new RegExp(`${count(h.count)} requests`));

  // More tenants than the page was sent: the server searches.
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await page.locator('[data-popover="filter-tenant"]').click();
  await page.getByRole('searchbox', { name: 'Search tenant' }).fill('tenant-147');
  await page.getByRole('dialog').getByText('tenant-147', { exact: true }).click();
  await expect(page.getByRole('checkbox', { name: 'tenant-147' })).toBeChecked();
  await page.keyboard.press('Escape');
  await expect(page).toHaveURL(/l\.tenant==tenant-147/);
  await page.getByRole('button', { name: 'Clear' }).click();
  await expect(page).not.toHaveURL(/l\./);

  // Requests are server spans; all kinds are twice as many here.
  await expect(page.getByTestId('heatmap')).toHaveAttribute('aria-label', new RegExp(`${count(s.requests)} requests`));
  await page.locator('[data-popover="filter-kind"]').click();
  await page.getByRole('button', { name: 'All kinds of spans' }).click();
  await expect(page).toHaveURL(/l\.kind=(&|$)/);
  await expect(page.getByTestId('heatmap')).toHaveAttribute('aria-label', new RegExp(`${count(2 * s.requests)} requests`));
});

test('the charts below share the moment that is pointed at', async ({ page }) => {
  await openService(page);
  const rate = page.getByRole('img', { name: /^Rate\./ });
  const quantiles = page.locator('figcaption').filter({ hasText: 'Quantiles' });
  await expect(quantiles).not.toContainText('ms');
  const box = await rate.boundingBox();
  await page.mouse.move(box!.x + box!.width / 2, box!.y + box!.height / 2);
  await expect(quantiles).toContainText(/p95 ?\d+(\.\d+)? ms/);
  const x = await page.locator('svg .moment').evaluate((e) => e.getBoundingClientRect().x);
  expect(Math.abs(x - (box!.x + box!.width / 2))).toBeLessThan(3);
  await pointAt(page, 0.25, 0.5);
  await expect(page.locator('svg .moment')).toHaveCount(0);
  await expect(page.locator('figcaption').filter({ hasText: 'Rate' })).toContainText(/req\/s/);
});

test('a chart below is read by keys, as the picture is', async ({ page }) => {
  await openService(page);
  const rate = page.getByRole('group', { name: 'Rate; arrow keys read it' });
  await rate.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('Shift+ArrowLeft');
  await expect(page.locator('svg .moment')).toHaveCount(1);
  await expect(page.locator('figcaption').filter({ hasText: 'Quantiles' })).toContainText(/p95 ?\d+(\.\d+)? ms/);
  await page.keyboard.press('Escape');
  await expect(page.locator('svg .moment')).toHaveCount(0);
});

test('the names of lines stand beyond their ends, none over another', async ({ page }) => {
  await openService(page);
  const over = page.locator('.frame svg.over').first();
  await expect(over.locator('text.name')).toHaveText(['p99', 'p95', 'mean']);
  const end = await over.locator('path.line').evaluateAll((all) => Math.max(...all.map((e) => e.getBoundingClientRect().right)));
  const names = await over.locator('text.name').evaluateAll((all) => all.map((e) => e.getBoundingClientRect()).map(({ left, top, right }) => ({ left, top, right })));
  for (const [i, n] of names.entries()) {
    expect(n.left).toBeGreaterThanOrEqual(end);
    if (i) expect(n.top - names[i - 1].top).toBeGreaterThan(12);
  }
  // On a phone they are in the legend.
  await page.setViewportSize({ width: 390, height: 844 });
  await expect(over.locator('text.name')).toHaveCount(0);
  await expect(page.locator('.foot .key')).toHaveText(['mean', 'p95', 'p99']);
});

test('a mark is added on the page, drawn, and deleted', async ({ page }) => {
  const s = known();
  const name = `deploy ${s.service.slice(-6)}`;
  await openService(page);
  await pointAt(page, 0.5, 0.5);
  const r = await reading(page);
  await page.keyboard.press('m');
  const dialog = page.getByRole('dialog', { name: 'Mark a moment' });
  await dialog.getByRole('button', { name: 'Add mark' }).click();
  await expect(dialog.getByRole('alert')).toContainText('Give the moment a name');
  await dialog.getByLabel('Name').fill(name);
  await dialog.getByLabel('What').fill('two more nodes');
  await dialog.getByRole('button', { name: 'Add mark' }).click();
  await expect(dialog).toBeHidden();
  const flag = page.getByRole('button', { name });
  await expect(flag).toBeVisible();
  const marks = await ask<MarksOf>(page, 'marks', { start: s.start, end: s.end });
  const mine = marks.marks.find((m) => m.name === name);
  expect(mine).toMatchObject({ time: r.start, service: s.service, description: 'two more nodes' });
  await flag.click();
  const shown = page.getByRole('dialog', { name });
  await expect(shown).toContainText('two more nodes');
  await shown.getByRole('button', { name: 'Delete this mark' }).click();
  await expect(flag).toBeHidden();
  expect((await ask<MarksOf>(page, 'marks', { start: s.start, end: s.end })).marks.some((m) => m.name === name)).toBe(false);
});

test('the copy buttons give this view', async ({ page, context }) => {
  const s = known();
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await openService(page);
  await page.locator('[data-popover="copy"]').click();
  await page.getByRole('button', { name: 'Copy command' }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain(
    `tailscope query heatmap --match '{service="${s.service}",kind="server"}' --start ${s.start} --end ${s.end}`,
  );
  await page.getByRole('button', { name: 'Copy PromQL' }).click();
  const promql = await page.evaluate(() => navigator.clipboard.readText());
  const res = await page.request.get(`/prometheus/api/v1/query?${new URLSearchParams({ query: promql, time: String(s.end) })}`);
  expect((await res.json()).data.result).toHaveLength(1);
  await page.getByRole('button', { name: 'Copy CSV' }).click();
  const lines = (await page.evaluate(() => navigator.clipboard.readText())).trim().split('\n');
  expect(lines[0]).toBe('start,end,low_seconds,high_seconds,count');
  expect(lines.slice(1).reduce((n, l) => n + Number(l.split(',')[4]), 0)).toBe(s.requests);
});

test('tenants are searched, sorted and paged by the server', async ({ page }) => {
  const s = known();
  await page.goto(`/tenants?start=${s.start}&end=${s.end}&l.service==${s.service}`);
  const table = page.getByTestId('tenants');
  await expect(table.getByRole('row').nth(1)).toContainText('acme');
  await expect(page.getByText(`${s.tenants} tenants`)).toBeVisible();
  await page.getByRole('button', { name: 'Next' }).click();
  await expect(page.getByText(`51–100 of ${s.tenants}`)).toBeVisible();
  await page.getByRole('searchbox', { name: 'Search tenants' }).fill('tenant-14');
  await expect(page.getByText('9 tenants')).toBeVisible();
  await page.getByRole('button', { name: 'Tenant', exact: true }).click();
  await expect(table.getByRole('row').nth(1)).toContainText('tenant-140');
  await table.getByRole('button', { name: 'tenant-140', exact: true }).click();
  await page.getByTestId('tenant-detail').getByRole('link', { name: 'Heatmap' }).click();
  await settled(page);
  expect(page.url()).toContain(servicePath().split('?')[0]);
  expect(page.url()).toContain('l.tenant==tenant-140');
});
