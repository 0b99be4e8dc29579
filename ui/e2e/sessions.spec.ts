// Sessions of the mirror: the list, one that is over with known figures, and one
// that runs and is asked to change.
import { expect, test, type Page } from '@playwright/test';
import type { MirrorVerdictResponse, Session } from '../src/shared/api/schema';
import { effectOf } from '../src/shared/verdict/effect';
import { accessFaults, ask } from './page';
import { ratios, report, reportRunning, type Mirrored } from './seed-mirror';

const server = process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099';
const known = (): Mirrored => JSON.parse(process.env.TAILSCOPE_SEED_MIRROR ?? '{}');
const range = () => `start=${known().start}&end=${known().end + 60}`;

async function open(page: Page, extra = ''): Promise<void> {
  await page.goto(`/sessions/${known().id}${extra && `?${extra}`}`);
  await expect(page.getByTestId('mirror-drawing')).toBeVisible();
}

// The page asks again each second: an answer may be under way when a test ends.
test.afterEach(({ page }) => page.unrouteAll({ behavior: 'ignoreErrors' }));

test('the list has those that run first, and leads to them', async ({ page }) => {
  const m = known();
  await reportRunning(server, m, 5000);
  await page.goto('/');
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Sessions' }).click();
  const rows = page.getByTestId('sessions').locator('tbody tr');
  await expect(rows.first()).toHaveAttribute('data-session', m.running);
  await expect(rows.first()).toContainText('running');
  const over = page.locator(`[data-session="${m.id}"]`);
  await expect(over).toContainText('ended');
  await expect(over).toContainText(/\d+ min \d\d s/);
  await page.getByRole('button', { name: 'Ended' }).click();
  await expect(page).toHaveURL(/state=ended/);
  await expect(page.locator(`[data-session="${m.running}"]`)).toHaveCount(0);
  await page.getByLabel('Search the log book').fill('no such thing');
  await expect(page.getByText('Nothing of that kind and state has “no such thing”')).toBeVisible();
  await page.getByLabel('Search the log book').fill('new cache');
  await over.getByRole('link', { name: 'new cache' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('new cache');
});

test('without a session the page says how to start one', async ({ page }) => {
  await page.route('**/api/v1/sessions?*', (r) => r.fulfill({ json: { start: 0, end: 1, sessions: [] } }));
  await page.goto('/sessions');
  await expect(page.getByTestId('no-sessions')).toContainText('tailscope mirror --listen :8080 --primary http://a:8081 --candidate http://b:8082');
  await page.goto('/sessions/there-is-none');
  await expect(page.getByTestId('no-session')).toContainText('There is no session there-is-none');
});

test('the verdict is that of the API, beside the noise floor', async ({ page }) => {
  const m = known();
  await open(page, range());
  const r = await ask<MirrorVerdictResponse>(page, `sessions/${m.id}/verdict`, { start: m.start, end: m.end + 60 });
  const c = r.candidates![0];
  await expect(page.getByTestId('mirror-verdict')).toHaveAttribute('data-verdict', c.verdict);
  await expect(page.getByTestId('mirror-verdict')).toContainText(c.headline.slice(1));
  const first = page.getByTestId('mirror-measures').locator('tbody tr').first();
  await expect(first).toHaveAttribute('data-measure', 'ratio');
  const ratio = c.measures!.find((x) => x.name === 'ratio')!;
  expect(Number(await first.getAttribute('data-low'))).toBeCloseTo(ratio.low!, 9);
  await expect(first).toContainText(effectOf(ratio).size);
  await expect(first.locator('svg .floor')).toHaveCount(1);
  for (const [operation, of] of Object.entries(ratios)) {
    const row = page.getByTestId('mirror-operations').locator(`[data-row="${operation}"]`);
    await expect(row.getByTestId('verdict-word')).toHaveText(of < 1 ? /↓\s*faster/ : of > 1 ? /↑\s*slower/ : /[≈=?]/);
  }
  const names = page.getByTestId('mirror-operations').locator('tbody tr td:first-child');
  await page.getByTestId('mirror-operations').getByRole('button', { name: 'Operation', exact: true }).click();
  await expect(page).toHaveURL(/sort=name/);
  await expect(names).toHaveText(['GET /cart/{id}', 'GET /export', 'GET /search']);
  await page.getByTestId('mirror-operations').getByRole('button', { name: /Requests/ }).click();
  await expect(names.first()).toHaveText('GET /cart/{id}');
});

test('an operation leads to its comparison and to its heatmap', async ({ page }) => {
  await open(page, range());
  await page.getByTestId('mirror-operations').getByRole('link', { name: 'GET /export' }).click();
  await expect(page).toHaveURL(/\/compare\?.*l\.operation==GET/);
  await expect(page.getByTestId('verdict')).toBeVisible();
  const p50 = page.locator('[data-measure="p50"]');
  expect(Number(await p50.getAttribute('data-effect'))).toBeGreaterThan(1.2);
  expect(Number(await p50.getAttribute('data-effect'))).toBeLessThan(1.4);
  // Rows of a metric are series: each leads to its labels.
  await page.goto(`/compare?${range()}&l.experiment==${known().id}&l.status==ok&l.service==${known().service}&by=label&label=variant&a=control&b=candidate&family=mirror_duration_seconds`);
  await page.getByRole('link', { name: /GET \/export,.* acme/ }).first().click();
  await expect(page).toHaveURL(/l\.operation==GET\+\/export.*l\.tenant==acme/);
  await expect(page.getByTestId('verdict')).toContainText('for acme');
  await open(page, range());
  await page.getByTestId('mirror-operations').locator('[data-row="GET /export"]').getByRole('link', { name: 'Heatmap' }).click();
  await expect(page).toHaveURL(/\/families\/mirror_ratio\?/);
  await expect(page.getByTestId('heatmap')).toBeVisible();
});

test('a part of the session is judged, and the rest is a press away', async ({ page }) => {
  const m = known();
  await open(page, `start=${m.start}&end=${m.start + 600}`);
  await expect(page.getByText('not the whole session')).toBeVisible();
  await page.getByRole('button', { name: 'All of it' }).click();
  await expect(page.getByText('not the whole session')).toHaveCount(0);
  await page.goto(`/sessions/${m.id}?start=${m.start - 900}&end=${m.start - 600}`);
  await expect(page.getByText('The session did not run in')).toBeVisible();
});

test('the account visibly sums up', async ({ page }) => {
  await open(page, 'tab=account');
  await expect(page.getByTestId('mirror-closes')).toBeVisible();
  const rows = await page.getByTestId('mirror-ledger').locator('tbody tr').evaluateAll((trs) => trs.map((tr) => ({
    kind: tr.className, key: (tr as HTMLElement).dataset.row ?? '', n: [...tr.querySelectorAll('td.n')].map((td) => Number(td.textContent!.replace(/,/g, ''))),
  })));
  for (const column of [0, 1]) {
    let left = 0;
    for (const r of rows) {
      if (/\bsum\b/.test(r.kind)) {
        if (r.key !== 'offered') expect(r.n[column], r.key).toBe(left);
        left = r.n[column];
      } else left -= r.n[column];
    }
  }
  await expect(page.getByTestId('mirror-ledger')).toContainText('dropped: queue full');
  await expect(page.getByTestId('mirror-requests')).toContainText('not chosen: unsafe method');
  // Were a copy ever lost without a cause, the page would say so.
  await page.route(`**/api/v1/sessions/${known().id}`, async (r) => {
    const e: Session = await (await r.fetch()).json();
    e.mirror!.shadows![1].account!.paired -= 5;
    await r.fulfill({ json: e });
  });
  await page.reload();
  await expect(page.getByRole('alert')).toContainText('The account does not close: candidate by 0, 0, 5');
});

test('over time: charts, read by keys, and every pair', async ({ page }) => {
  await open(page, `tab=time&${range()}`);
  const time = page.getByTestId('mirror-time');
  await expect(time.locator('canvas')).toHaveCount(4); // times, ratio, requests, every pair
  await expect(time).toContainText('candidate p99');
  await time.getByRole('group', { name: /^Time of the whole answer/ }).focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowLeft');
  await expect(time.getByTestId('mirror-when')).toContainText(/\d\d:\d\d:\d\d–\d\d:\d\d/);
  await expect(time.getByTestId('ratio-heat')).toBeVisible();
  await expect(time.getByTestId('heatmap')).toHaveAttribute('aria-label', /per-request ratio of candidate to control/);
});

test('what a session is asked for is shown as asked until it is done', async ({ page }) => {
  const m = known();
  let n = 9000;
  await reportRunning(server, m, n);
  await page.goto(`/sessions/${m.running}`);
  const drawing = page.getByTestId('mirror-drawing');
  const share = drawing.getByLabel('Copies of', { exact: true });
  await expect(share).toHaveValue('100 %');
  await share.fill('140');
  await share.press('Enter');
  await expect(drawing).toContainText('Write a share from 0 to 100 %.');
  await share.fill('25');
  await share.press('Enter');
  await expect(drawing.getByTestId('asked')).toHaveText('asked, now 100 %');
  // Another reader sees the same.
  await page.reload();
  await expect(drawing.getByTestId('asked')).toHaveText('asked, now 100 %');
  const { change } = await reportRunning(server, m, (n += 100));
  expect(change).toMatchObject({ share: 0.25 });
  await reportRunning(server, m, (n += 100), change!.number, 0.25);
  await expect(drawing.getByTestId('asked')).toHaveCount(0);
  await expect(share).toHaveValue('25 %');

  const pool = drawing.locator('[data-target="candidate"]').getByLabel('Servers in use');
  await pool.fill('7');
  await pool.press('Enter');
  await expect(drawing).toContainText('Write 0 to 3.');
  await page.route(`**/api/v1/sessions/${m.running}`, (r) => (r.request().method() === 'PATCH' ? r.fulfill({ status: 400, json: { error: { code: 'invalid', message: 'the session is over', field: 'shadows' } } }) : r.fallback()));
  await pool.fill('1');
  await pool.press('Enter');
  await expect(drawing).toContainText('The session is over.');
});

test('stop asks first', async ({ page }) => {
  const m = known();
  await reportRunning(server, m, 20_000);
  await page.goto(`/sessions/${m.running}`);
  await page.getByRole('button', { name: 'Stop…' }).click();
  await expect(page.getByRole('dialog')).toContainText('Stop more servers?');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect((await reportRunning(server, m, 20_010)).change?.stop).toBeFalsy();
  await page.getByRole('button', { name: 'Stop…' }).click();
  await page.getByRole('button', { name: 'Stop the session' }).click();
  await expect(page.getByRole('button', { name: 'Asked to stop' })).toBeDisabled();
  expect((await reportRunning(server, m, 20_020)).change?.stop).toBe(true);
});

test('what is over can be forgotten', async ({ page, request }) => {
  const id = `${known().id}-old`;
  await request.put(`/api/v1/sessions/${id}`, { data: report('old one', known().service, known().start, 2000, true) });
  await page.goto(`/sessions/${id}`);
  await page.getByRole('button', { name: 'Forget…' }).click();
  await page.getByRole('button', { name: 'Forget it' }).click();
  await expect(page).toHaveURL(/\/sessions$/);
  await expect(page.getByTestId('sessions')).toBeVisible();
  await expect(page.locator(`[data-session="${id}"]`)).toHaveCount(0);
});

test('it is asked for each second, and not while nobody looks', async ({ page }) => {
  await reportRunning(server, known(), 30_000);
  let asked = 0;
  page.on('request', (r) => (asked += Number(r.url().endsWith(`/sessions/${known().running}`) && r.method() === 'GET' && r.resourceType() === 'fetch')));
  await page.goto(`/sessions/${known().running}?tab=account`);
  await expect.poll(() => asked).toBeGreaterThan(2);
  const hide = (hidden: boolean) => page.evaluate((h) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => h });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  await page.waitForTimeout(300);
  const before = asked;
  await page.waitForTimeout(2500);
  expect(asked - before).toBeLessThanOrEqual(1);
  await hide(false);
  await expect.poll(() => asked - before).toBeGreaterThan(1);
});

test('answers that differ, with secrets marked', async ({ page }) => {
  await open(page, 'tab=answers');
  const rows = page.getByTestId('mirror-answers').locator('tbody tr');
  await expect(rows.first()).toContainText('real');
  await expect(rows).toHaveCount(1);
  await page.getByText('One place that noise explains').click();
  const noise = page.getByTestId('mirror-noise').locator('tbody tr');
  await expect(noise).toContainText('header x-request-id');
  const example = page.getByTestId('mirror-examples').locator('details').first();
  await example.locator('summary').click();
  await expect(example.locator('tbody')).toContainText('12.50');
  await expect(example.locator('mark').first()).toHaveText('redacted-0a1b2c3d4e');
  await page.getByLabel('Search places and operations').fill('request-id');
  await expect(page).toHaveURL(/q=request-id/);
  await expect(rows).toHaveCount(0);
  await expect(noise).toHaveCount(1);
});

test('a lost session, and one without control, say so', async ({ page }) => {
  await page.route(`**/api/v1/sessions/${known().id}`, async (r) => {
    const e: Session = await (await r.fetch()).json();
    e.state = 'lost';
    e.mirror!.shadows = e.mirror!.shadows!.filter((s) => s.role !== 'control');
    e.mirror!.shadows[0].diverged = known().start + 30;
    e.mirror!.differences = undefined;
    await r.fulfill({ json: e });
  });
  await open(page);
  await expect(page.getByTestId('lost')).toContainText('has not reported since');
  await expect(page.getByTestId('diverged')).toContainText('Diverged');
  await page.getByRole('link', { name: 'Answers' }).click();
  await expect(page.getByTestId('no-answers')).toContainText('--compare');
});

for (const scheme of ['light', 'dark'] as const) {
  test(`sessions keep WCAG AA and the width of a phone, ${scheme}`, async ({ page }) => {
    test.setTimeout(180_000); // axe is slow on a busy machine
    await page.emulateMedia({ colorScheme: scheme });
    await reportRunning(server, known(), 40_000);
    const paths = ['/sessions', ...[known().running, known().id].flatMap((id) => ['', 'tab=time', 'tab=account', 'tab=answers'].map((q) => `/sessions/${id}?${q}`))];
    for (const path of paths) {
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.goto(path);
      await expect(page.locator('main h1')).toBeVisible();
      await page.waitForLoadState('load');
      await page.waitForTimeout(800);
      expect(await accessFaults(page, scheme), path).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      await expect.poll(() => page.evaluate(() => document.scrollingElement!.scrollWidth - innerWidth), { message: path }).toBeLessThanOrEqual(0);
    }
  });
}
