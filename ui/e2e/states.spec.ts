// What the page does when there is no data, when the server fails, in the dark,
// on a phone, on paper, live, and with a week of data.
import { expect, test, type Page } from '@playwright/test';
import { known, openService, pointAt, reading, servicePath, settled } from './page';

async function backgroundLightness(page: Page): Promise<number> {
  return page.evaluate(() => {
    const c = document.createElement('canvas').getContext('2d', { willReadFrequently: true })!;
    c.fillStyle = getComputedStyle(document.body).backgroundColor;
    c.fillRect(0, 0, 1, 1);
    return c.getImageData(0, 0, 1, 1).data[0];
  });
}

// The page asks again each second: an answer may be under way when a test ends.
test.afterEach(({ page }) => page.unrouteAll({ behavior: 'ignoreErrors' }));

test('without data the page says how to send some, and opens by itself when it comes', async ({ page }) => {
  let empty = true;
  await page.route('**/api/v1/status', async (route) => {
    const res = await route.fetch();
    await route.fulfill({ response: res, json: { ...(await res.json()), has_data: !empty } });
  });
  const status = await (await page.request.get('/api/v1/status')).json();
  await page.goto('/');
  await expect(page.getByRole('heading', { name: 'No data yet' })).toBeVisible();
  await expect(page.getByText(`OTEL_EXPORTER_OTLP_ENDPOINT=http://${status.otlp_http}`)).toBeVisible();
  for (const [language, what] of [['Python', 'opentelemetry-instrument'], ['Go', 'otlptracehttp'], ['Java', '-javaagent'], ['Node', 'auto-instrumentations-node']]) {
    await page.getByRole('tab', { name: language }).click();
    await expect(page.locator('pre').nth(1)).toContainText(what);
  }
  empty = false;
  await expect(page.getByTestId('services')).toBeVisible();
});

const degraded = [
  {
    code: 'damage', summary: 'Some stored data is damaged or missing. Run tailscope doctor.',
    text: 'Lost: slots of ten seconds of shop, the last generation of each writer, labels of series. damaged/000012.sst: checksum mismatch in block 7.',
    next: 'stop the server and run tailscope doctor', from: 1772359200, to: 1772362800,
  },
  {
    code: 'disk_full', summary: 'The disk is full: nothing new is stored. Free some space.',
    text: 'Nothing new is stored: no space left on the disk of /data: 3 MiB free, 256 MiB must stay free.', next: 'free space on the disk', from: null, to: null,
  },
];

test('without data the page says why nothing can be stored, and opens by itself when it can', async ({ page }) => {
  let full = true;
  await page.route('**/api/v1/status', async (route) => {
    const res = await route.fetch();
    await route.fulfill({ response: res, json: { ...(await res.json()), has_data: !full, problems: full ? [degraded[1]] : [] } });
  });
  await page.goto('/');
  await expect(page.getByRole('heading', { name: 'Nothing can be stored' })).toBeVisible();
  await expect(page.getByRole('main')).toContainText('256 MiB must stay free.');
  await expect(page.getByRole('main')).toContainText('Free space on the disk.');
  await expect(page.getByText('No data yet')).toHaveCount(0);
  full = false;
  await expect(page.getByTestId('services')).toBeVisible();
});

test('a degraded server says on every page what is missing and what to do', async ({ page }) => {
  const problems: { code: string; summary: string; text: string; next: string; from: number | null; to: number | null }[] = [...degraded];
  await page.route('**/api/v1/status', async (route) => {
    const res = await route.fetch();
    await route.fulfill({ response: res, json: { ...(await res.json()), problems } });
  });
  for (const path of ['/', '/checks']) {
    await page.goto(path);
    const banner = page.locator('details.problems');
    await expect(banner).toContainText('Degraded');
    await expect(banner).toContainText('Some stored data is damaged or missing. Run tailscope doctor.');
    await expect(banner).toContainText('2 problems');
    await expect(banner.getByText('generation of each writer')).toBeHidden();
    await banner.locator('summary').click();
    await expect(banner.getByRole('listitem').first()).toContainText('Concerns Sun 1 Mar 11:00–12:00 CET');
    await expect(banner.getByRole('listitem').nth(1)).toContainText('What to do Free space on the disk.');
  }
  // What cost nothing is told, and is not called degraded.
  problems.splice(0, 2, { code: 'recovered', summary: 'A file was damaged, no observation is lost. Find out why.', text: 'No observation was lost. 000007.log: cut short.', next: 'find out what damaged it', from: null, to: null });
  await page.goto('/');
  await expect(page.locator('details.problems')).toContainText('Recovered A file was damaged, no observation is lost.');
  problems.splice(0, 1, ...degraded);
  // On a phone it is two lines, and all of the sentence can be read.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto('/');
  const line = page.locator('details.problems summary');
  expect((await line.boundingBox())!.height).toBeLessThan(60);
  await expect(line).toContainText('Run tailscope doctor.');
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
});

test('damage is acknowledged on the page, and what is still in place says how to repair it', async ({ page }) => {
  const problems = [...degraded];
  let left = 1;
  await page.route('**/api/v1/status', async (route) => {
    const res = await route.fetch();
    await route.fulfill({ response: res, json: { ...(await res.json()), problems } });
  });
  await page.route('**/api/v1/damage/acknowledge', (route) => {
    expect(route.request().headers()['content-type']).toBe('application/json');
    if (left === 0) problems.splice(0, 1);
    return route.fulfill({ json: { acknowledged: 1 - left, left } });
  });
  await page.goto('/');
  const banner = page.locator('details.problems');
  await banner.locator('summary').click();
  const button = banner.getByRole('button', { name: 'Acknowledge damage' });
  await button.click();
  await expect(banner.getByRole('status')).toHaveText('One damaged file is still in place. Stop the server and run tailscope doctor --repair.');
  await expect(banner).toContainText('2 problems');
  left = 0;
  await button.click();
  await expect(banner.locator('summary')).toContainText('The disk is full');
  await expect(button).toHaveCount(0);
});

test('a range without requests says so', async ({ page }) => {
  const s = known();
  await page.goto(`/services/${s.service}?start=${s.start - 7200}&end=${s.start - 3600}`);
  await expect(page.getByText('Nothing was measured here.')).toBeVisible();
});

test('a name that nobody sent is answered by the nearest to open', async ({ page }) => {
  const s = known();
  const wrong = `${s.service}x`;
  const message = `there is no service "${wrong}"; did you mean "${s.service}"? /api/v1/labels?names=service and tailscope query services list those there are`;
  await page.route((u) => /^\/api\/v1\/(heatmap|timeline|distribution|sla)$/.test(u.pathname) && u.searchParams.get('match')!.includes(wrong), (route) =>
    route.fulfill({ status: 404, json: { error: { code: 'not_found', field: 'match', message, instead: { label: 'service', name: wrong, nearest: [s.service], message } } } }));
  for (const tab of ['', '/sla']) {
    await page.goto(servicePath().replace(`${s.service}?`, `${wrong}${tab}?`));
    const alert = page.getByRole('alert');
    await expect(alert).toContainText(message);
    await expect(alert.getByRole('button', { name: 'Try again' })).toHaveCount(0);
    await expect(page.getByText('Nothing was measured here.')).toHaveCount(0);
    await alert.getByRole('link', { name: `Open ${s.service}` }).click();
    await expect(page.getByRole('heading', { level: 1 })).toHaveText(s.service);
    await expect(alert).toHaveCount(0);
  }
  await page.goto(servicePath().replace(s.service, wrong));
  await page.getByRole('link', { name: 'All services' }).click();
  await expect(page.getByTestId('services')).toBeVisible();
});

test('an error says what failed and what to try, keeps the picture, and goes away', async ({ page }) => {
  await openService(page);
  await page.route('**/api/v1/heatmap?*', (route) =>
    route.fulfill({ status: 503, json: { error: { code: 'unavailable', message: 'the disk is full; free some space' } } }));
  await page.getByTestId('operations').getByRole('button', { name: 'POST /items' }).click();
  const alert = page.getByRole('alert');
  await expect(alert).toContainText('This service could not be read: the disk is full; free some space.');
  await expect(alert).toContainText('What you see is the last answer.');
  await expect(page.getByTestId('heatmap')).toBeVisible();
  const again = page.waitForRequest('**/api/v1/heatmap?*');
  await alert.getByRole('button', { name: 'Try again' }).click();
  await again;
  await page.unroute('**/api/v1/heatmap?*');
  // The page may ask again by itself, and be sooner than the click.
  await expect(async () => {
    if (await alert.isVisible()) await alert.getByRole('button', { name: 'Try again' }).click({ timeout: 500 });
    await expect(alert).toBeHidden({ timeout: 500 });
  }).toPass({ timeout: 20_000 });
});

test('a server that is gone is named, with what to check', async ({ page }) => {
  await page.goto('/');
  await expect(page.getByTestId('services')).toBeVisible();
  await page.route('**/api/v1/**', (route) => route.abort());
  await page.getByRole('link', { name: 'Tenants' }).click();
  await expect(page.getByRole('alert')).toContainText('no answer from');
  await expect(page.getByRole('alert')).toContainText('tailscope serve');
});

test('a question the server refuses is explained in its words', async ({ page }) => {
  const s = known();
  const refused = await page.request.get(`/api/v1/heatmap?match=${encodeURIComponent('{servce="x"')}&start=${s.start}&end=${s.end}`);
  expect(refused.status()).toBe(400);
  const { error } = await refused.json();
  await page.route('**/api/v1/heatmap?*', (route) => route.fulfill({ status: 400, json: { error } }));
  await page.goto(servicePath());
  await expect(page.getByRole('alert')).toContainText(error.message.slice(0, 40));
});

test('dark follows the system and can be chosen for good', async ({ page }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await openService(page);
  expect(await backgroundLightness(page)).toBeLessThan(40);
  const dark = await corner(page);
  await page.getByRole('button', { name: 'Appearance' }).click();
  await page.getByRole('button', { name: 'Light', exact: true }).click();
  expect(await backgroundLightness(page)).toBeGreaterThan(220);
  await expect.poll(() => corner(page)).toBeGreaterThan(dark);
  await page.reload();
  await settled(page);
  expect(await backgroundLightness(page)).toBeGreaterThan(220);
});

/** The red of the picture's first pixel: the ground. */
async function corner(page: Page): Promise<number> {
  return page.locator('canvas').first().evaluate((c: HTMLCanvasElement) => c.getContext('2d')!.getImageData(0, 0, 1, 1).data[0]);
}

test('a phone gets one column, the heatmap first, and no sideways scrolling', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  const s = known();
  for (const path of [servicePath(), `/?start=${s.start}&end=${s.end}`, '/tenants', '/families']) {
    await page.goto(path);
    await expect(page.locator('main table, main canvas').first()).toBeVisible();
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth), path).toBeLessThanOrEqual(0);
  }
  await page.goto(servicePath());
  await settled(page);
  const map = await page.getByTestId('heatmap').boundingBox();
  const filter = await page.getByRole('button', { name: 'Filter', exact: true }).boundingBox();
  const readout = await page.getByTestId('readout').boundingBox();
  expect(map!.y + map!.height).toBeLessThan(844);
  expect(readout!.y).toBeGreaterThan(map!.y + map!.height);
  expect(filter!.y).toBeGreaterThan(readout!.y);
  await pointAt(page, 0.5, 0.5);
  expect((await reading(page)).state).toBe('reading');
});

test('live refresh waits while the reader points at something', async ({ page }) => {
  const s = known();
  await page.goto(`/services/${s.service}?range=3h`);
  await settled(page);
  let asked = 0;
  page.on('request', (r) => { if (r.url().includes('/api/v1/heatmap')) asked++; });
  await pointAt(page, 0.5, 0.5);
  await expect(page.getByRole('button', { name: 'held' })).toBeVisible();
  await page.waitForTimeout(11_000);
  expect(asked).toBe(0);
  await page.mouse.move(2, 2);
  await expect(page.getByRole('button', { name: 'live' })).toBeVisible();
  await expect.poll(() => asked, { timeout: 15_000 }).toBeGreaterThan(0);
});

test('paper gets the picture and the numbers without the controls', async ({ page }) => {
  await openService(page);
  await page.emulateMedia({ media: 'print' });
  await expect(page.getByTestId('heatmap')).toBeVisible();
  await expect(page.getByTestId('facts')).toBeVisible();
  await expect(page.getByRole('navigation')).toBeHidden();
  await expect(page.getByRole('button', { name: 'Filter', exact: true })).toBeHidden();
});

test('a week of one service draws in well under 100 ms of script time', async ({ page }, info) => {
  const step = 600;
  const columns = 1008;
  const bounds = Array.from({ length: 321 }, (_, i) => 0.001 * 2 ** (i / 32));
  const start = Math.floor(known().start / step) * step - columns * step;
  const body = JSON.stringify({
    start, end: start + columns * step, family: 'span_duration_seconds', step, slot: 600, error: 0.022, bounds, count: columns * 150 * 500, max_cell: 999,
    columns: Array.from({ length: columns }, (_, c) => ({
      start: start + c * step, count: 75000, sum: 3000, min: 0.001, max: 1, rows: Array.from({ length: 150 }, (_, k) => 40 + k), counts: Array.from({ length: 150 }, (_, k) => 1 + ((k * 37 + c * 11) % 998)),
    })),
  });
  await page.setViewportSize({ width: 1600, height: 900 });
  await openService(page);
  await page.route('**/api/v1/heatmap?*', (route) => route.fulfill({ contentType: 'application/json', body }));
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  const script = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration')?.value ?? 0;
  // The clock runs on while a busy machine does something else: the best of five
  // is the nearest to what the script costs.
  let best = { parse: Infinity, prepare: Infinity, paint: Infinity, all: Infinity, drawing: Infinity };
  for (let i = 0; i < 5; i++) {
    await page.evaluate(() => performance.clearMeasures());
    const before = await script();
    await page.getByTestId('operations').getByRole('button', { name: 'POST /items' }).click();
    await expect.poll(() => page.evaluate(() => performance.getEntriesByName('tailscope:paint').length)).toBeGreaterThan(0);
    await expect(page.getByTestId('heatmap')).toHaveAttribute('data-columns', String(columns));
    await settled(page);
    const all = ((await script()) - before) * 1000;
    const [parse, prepare, paint] = await page.evaluate(() => ['parse', 'prepare', 'paint'].map((n) => performance.getEntriesByName(`tailscope:${n}`).at(-1)?.duration ?? NaN));
    const drawing = parse + prepare + paint;
    if (drawing < best.drawing) best = { ...best, parse, prepare, paint, drawing };
    best.all = Math.min(best.all, all);
  }
  const said = `parse ${best.parse.toFixed(1)} ms, prepare ${best.prepare.toFixed(1)} ms, paint ${best.paint.toFixed(1)} ms; all script of the change, charts and tables too, ${best.all.toFixed(0)} ms`;
  info.annotations.push({ type: 'script time', description: said });
  console.log(`    ${said}`);
  expect(best.paint).toBeGreaterThan(0);
  expect(best.drawing).toBeLessThan(100);
});
