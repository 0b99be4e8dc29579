// Checks of ui/e2e/checks.yaml, as scripts/browser-tests starts the server with
// it: the list, one that is in trouble, what is asked of it, another threshold
// tried on its past, incidents and maintenance. Answers that a healthy server
// does not give are made up.
import { expect, test, type Page } from '@playwright/test';
import type { Check, CheckBacktestResponse, CheckResponse, ChecksResponse, IncidentsResponse } from '../src/shared/api/schema';
import { accessFaults, ask, known } from './page';

const bad = 'page test bad';
const well = 'page test well';
const path = (id: string, extra = '') => `/checks/${encodeURIComponent(id)}${extra && `?${extra}`}`;

async function listed(page: Page, state = ''): Promise<Check[]> {
  const r = await ask<ChecksResponse>(page, 'checks', { match: '{suite="page-test"}', limit: 200, ...(state ? { state } : {}) });
  return r.checks ?? [];
}

let ours = false;
test.beforeEach(async ({ page }) => {
  const files = (await ask<ChecksResponse>(page, 'checks', { limit: 1 })).files ?? [];
  ours = files.some((f) => f.endsWith('e2e/checks.yaml'));
  test.skip(!ours, 'this server does not guard ui/e2e/checks.yaml');
  await expect.poll(async () => (await listed(page)).find((c) => c.id === bad)?.state, { timeout: 30_000 }).toBe('CRITICAL');
});

/** Leaves nothing behind that another test would see. */
async function clean(page: Page): Promise<void> {
  if (!ours) return;
  for (const i of (await ask<IncidentsResponse>(page, 'incidents', { kind: 'marked' })).incidents ?? []) await page.request.delete(`/api/v1/incidents/${i.id}`);
  for (const w of (await ask<{ windows: { id?: string; fixed?: boolean }[] | null }>(page, 'maintenance', {})).windows ?? []) if (!w.fixed) await page.request.delete(`/api/v1/maintenance/${w.id}`);
  await page.request.delete('/api/v1/check/acknowledge', { params: { id: bad } });
}
test.afterEach(async ({ page }) => {
  await page.unrouteAll({ behavior: 'ignoreErrors' }); // the page asks again each second
  await clean(page);
});

test('the list has the worst first, and is filtered and searched by the server', async ({ page }) => {
  await page.goto('/');
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Checks' }).click();
  const rows = page.getByTestId('checks').locator('tbody tr');
  const row = page.locator(`[data-check="${bad}"]`);
  await expect(rows.first()).toHaveAttribute('data-state', 'CRITICAL');
  await expect(row.getByTestId('verdict-word')).toHaveText(/✕\s*CRITICAL/);
  await expect(row).toContainText('5.00 s');
  await expect(row).toContainText('≤ 1.00 s');
  await expect(row).toContainText(/warning.>.1\.10.s, critical.>.2\.00.s/);
  await expect(page.getByRole('button', { name: /^CRITICAL \d/ })).toBeVisible();
  await page.getByLabel('Search checks').fill('number 3');
  await expect(page).toHaveURL(/q=number\+3/);
  await expect(rows).toHaveCount(1);
  await expect(rows.getByTestId('verdict-word')).toHaveText(/✓\s*OK/);
  await page.getByRole('button', { name: /^Not OK/ }).click();
  await expect(page).toHaveURL(/state=bad/);
  await expect(page.getByText('No check contains “number 3” and is not OK.')).toBeVisible();
  await page.goBack();
  await expect(rows).toHaveCount(1);
});

test('a check: its value in its thresholds, and how both came about', async ({ page }) => {
  test.setTimeout(150_000); // series are looked for each minute
  await page.goto(path(bad));
  await expect(page.getByRole('heading', { level: 1 })).toHaveText(bad);
  await expect(page.getByTestId('check-state')).toHaveAttribute('data-state', 'CRITICAL');
  await expect(page.getByTestId('check-state')).toContainText(/5\.00 s\s*must be ≤ 1\.00 s/);
  const chart = page.getByTestId('check-chart');
  await expect(chart.locator('canvas')).toHaveCount(1);
  await expect(chart.getByTestId('state-strip')).toHaveAttribute('aria-label', /CRITICAL/);
  await expect.poll(async () => (await ask<CheckResponse>(page, 'check', { id: bad })).points?.some((p) => p.value === 5), { timeout: 40_000 }).toBe(true);
  await page.reload();
  await chart.focus();
  await page.keyboard.press('End');
  for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowLeft');
  await expect(page.getByTestId('check-chart-reading')).toContainText(/\d\d:\d\d/);
  const steps = page.getByTestId('steps');
  await expect(steps).toHaveCount(2);
  await expect(steps.first().locator('tbody tr')).toHaveCount(1); // a sum of constants
  const part = '{check="page test well"}[0]';
  await steps.nth(1).getByRole('button', { name: part, exact: true }).focus();
  await expect(steps.nth(1).locator('mark')).toHaveText(part);
  await page.getByRole('link', { name: 'Definition' }).click();
  await expect(page.getByTestId('definition')).toContainText('max(1, {check=');
  await expect(page.getByTestId('definition')).toContainText('checks.yaml:');
  await page.goto(path('there is none'));
  await expect(page.getByTestId('no-check')).toContainText('There is no check there is none');
  // An id with braces, quotes and slashes is an address too.
  const id = 'page test each{part="a/b"}';
  await expect.poll(async () => (await ask<ChecksResponse>(page, 'checks', { q: id })).total, { timeout: 90_000 }).toBe(1);
  await page.goto('/checks');
  await page.getByLabel('Search checks').fill('{part');
  await page.getByRole('link', { name: id }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText(id);
  await page.reload();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText(id);
});

test('somebody takes care of it, takes that back, and runs it now', async ({ page }) => {
  await page.goto(path(bad));
  await page.getByRole('button', { name: 'Acknowledge…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Acknowledge' }).click();
  await expect(dialog.getByRole('alert')).toHaveText('Say who takes care of it.');
  await dialog.getByLabel('By').fill('ann');
  await dialog.getByLabel('Comment').fill('disk ordered');
  await page.keyboard.press('Enter');
  await expect(dialog).toHaveCount(0);
  await expect(page.getByText(/ann takes care of it.*: disk ordered/)).toBeVisible();
  await expect(page.getByText(/No notifications: acknowledged by ann/)).toBeVisible();
  await page.goto('/checks');
  await expect(page.locator(`[data-check="${bad}"]`)).toContainText('ann takes care of it: disk ordered');
  await page.goto(path(bad));
  await page.getByRole('button', { name: 'Take back' }).click();
  await expect(page.getByRole('button', { name: 'Acknowledge…' })).toBeVisible();
  await page.getByRole('button', { name: 'Run now' }).click();
  await expect(page.getByTestId('told')).toContainText('It ran: CRITICAL, 5.00 s');
});

test('another threshold is tried at once, and found wrong in place', async ({ page }) => {
  let evaluated = 0;
  page.on('request', (r) => (evaluated += Number(r.url().endsWith('/checks/evaluate'))));
  await page.goto(path(bad, 'tab=edit&over=1d'));
  const edit = page.getByTestId('check-edit');
  await expect(edit.getByTestId('value-now')).toContainText('5.00 s');
  await expect(edit.getByTestId('threshold-now')).toContainText('1.00 s');
  const figures = page.getByTestId('figures');
  await expect(figures.locator('thead')).toContainText('as it is');
  await expect(figures.locator('thead')).not.toContainText('changed');
  const of = edit.getByLabel('Threshold: a number, an expression or a profile');
  const before = evaluated;
  await of.fill('');
  await of.pressSequentially('max(7, 0.5)');
  await expect(edit.getByTestId('threshold-now')).toContainText('7.00 s');
  expect(evaluated - before).toBeLessThanOrEqual(8); // value and threshold, not once a key
  await expect(page).toHaveURL(/of=max/);
  await expect(figures.locator('thead')).toContainText('changed');
  const alarms = figures.getByRole('row', { name: /^Alarms \d/ });
  await expect(alarms.locator('td').last()).toHaveText('0');
  await expect(alarms.locator('td').first()).not.toHaveText('0');
  await expect(edit.getByTestId('draft-yaml')).toContainText("of: 'max(7, 0.5)'");
  await expect(edit).toContainText('This page writes no files.');
  // The draft is an address, and goes along.
  await page.reload();
  await expect(of).toHaveValue('max(7, 0.5)');
  await expect(edit.getByTestId('threshold-now')).toContainText('7.00 s');
  await of.fill('max(7, )');
  await expect(edit.getByTestId('wrong-of')).toContainText(/Column \d+/);
  await expect(edit.getByTestId('wrong-of').locator('mark')).toHaveText(')');
  await expect(edit.getByTestId('threshold-now')).toHaveClass(/dimmed/);
  await page.getByRole('button', { name: 'As it is' }).click();
  await expect(of).toHaveValue(/^max\(1, \{check/);
  await expect(edit.getByTestId('wrong-of')).toHaveCount(0);
  await edit.getByLabel('Critical').fill('nonsense');
  await expect(edit.getByTestId('wrong-crit')).toBeVisible();
});

test('an incident is marked by a drag or a form, and a backtest is held against it', async ({ page }) => {
  await page.goto(path(bad, 'range=15m'));
  await page.getByRole('button', { name: 'Drag marks an incident' }).click();
  const over = page.getByTestId('check-chart').locator('.u-over');
  const box = (await over.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.5, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.99, box.y + 60, { steps: 5 });
  await page.mouse.up();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByLabel('From')).not.toHaveValue('');
  await dialog.getByRole('button', { name: 'Mark it' }).click();
  await expect(dialog.getByRole('alert')).toContainText('Say what happened');
  await dialog.getByLabel('What').fill('disk full');
  await dialog.getByRole('button', { name: 'Mark it' }).click();
  await expect(dialog).toHaveCount(0);
  await page.getByRole('link', { name: /^Incidents/ }).click();
  const table = page.getByTestId('incidents');
  await expect(table).toContainText('disk full');
  await expect(table.getByTestId('verdict-word').first()).toHaveText(/✕\s*CRITICAL/);
  await table.getByText(/\d events?/).first().click();
  await expect(table).toContainText(/opened OK → CRITICAL/);

  await page.goto(path(bad, 'tab=edit&over=1d'));
  const backtest = page.getByTestId('backtest');
  await expect(backtest).toContainText('✓ disk full');
  await expect(page.getByTestId('figures')).toContainText('Marked incidents found');
  const r: CheckBacktestResponse = await (await page.request.post('/api/v1/checks/backtest', { data: { check: bad, start: Math.floor(Date.now() / 1000) - 86_400 } })).json();
  expect(r.found).toBe(1);
  await page.goto('/checks?tab=incidents&kind=marked');
  await page.getByRole('button', { name: 'Forget disk full' }).click();
  await expect(page.getByText('No incident in this range')).toBeVisible();
});

test('maintenance begins and ends', async ({ page }) => {
  await page.goto(path(bad));
  await page.getByRole('button', { name: 'Maintenance…' }).click();
  await page.getByRole('dialog').getByLabel('What').fill('upgrade');
  await page.getByRole('dialog').getByRole('button', { name: 'Begin' }).click();
  await expect(page.getByText('No notifications: maintenance upgrade')).toBeVisible();
  await page.goto('/checks?tab=maintenance');
  const row = page.getByTestId('maintenance').getByRole('row').filter({ hasText: 'upgrade' });
  await expect(row).toContainText('active');
  await expect(row).toContainText(bad);
  await row.getByRole('button', { name: 'End upgrade' }).click();
  await expect.poll(async () => (await listed(page)).find((c) => c.id === bad)?.quiet ?? '').toBe('');
});

test('what is wrong with files and receivers is said on top, and who has no check is told how to write one', async ({ page }) => {
  const empty = { checks: [], total: 0, counts: {}, receivers: [], files: [], lag: null, now: Date.now() / 1000 };
  let answer: unknown = empty;
  await page.route('**/api/v1/checks?*', (r) => r.fulfill({ json: answer }));
  await page.goto('/checks');
  await expect(page.getByTestId('no-checks')).toContainText('checks:');
  await expect(page.getByTestId('no-checks')).toContainText('tailscope check validate checks.yaml');
  answer = {
    ...empty, files: ['/etc/checks.yaml'], problem: '/etc/checks.yaml:3:5: there is no key warn; did you mean warning?',
    receivers: [{ name: 'mail', kind: 'email', to: 'mail:587', state: 'waiting', error: 'connection refused', next: null, delivered: 0, failed: 3, spooled: 2, dropped: {} }],
  };
  await page.reload();
  await expect(page.getByTestId('checks-problem')).toContainText('/etc/checks.yaml:3:5');
  await expect(page.getByTestId('receiver-trouble')).toContainText('mail (email, mail:587) does not work: connection refused; 2 wait on disk');
  await expect(page.getByTestId('checks')).toContainText('hold no active check');
});

test('the charts of a service have the bands of its checks', async ({ page }) => {
  await page.route(/\/api\/v1\/checks\?/, async (r) => {
    const a: ChecksResponse = await (await r.fetch()).json();
    const one = (await (await page.request.get('/api/v1/checks', { params: { q: bad } })).json()) as ChecksResponse;
    await r.fulfill({ json: { ...a, checks: one.checks, total: 1 } });
  });
  await page.goto(`/services/${known().service}?range=1h`);
  await expect(page.getByTestId('service-checks')).toContainText('1 of this service');
  await expect(page.getByRole('link', { name: bad })).toBeVisible();
  await expect(page.getByTestId('state-strip')).toHaveAttribute('aria-label', /1 × CRITICAL/);
});

for (const scheme of ['light', 'dark'] as const) {
  test(`checks keep WCAG AA and the width of a phone, ${scheme}`, async ({ page }) => {
    test.setTimeout(180_000); // axe is slow on a busy machine
    await page.emulateMedia({ colorScheme: scheme });
    for (const p of ['/checks', '/checks?tab=incidents', '/checks?tab=maintenance', path(bad), path(bad, 'tab=incidents'), path(well, 'tab=definition'), path(bad, 'tab=edit&over=1d&warn=20%25')]) {
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.goto(p);
      await expect(page.locator('main h1')).toBeVisible();
      await page.waitForLoadState('load');
      await page.waitForTimeout(800);
      expect(await accessFaults(page, scheme), p).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      await expect.poll(() => page.evaluate(() => document.scrollingElement!.scrollWidth - innerWidth), { message: p }).toBeLessThanOrEqual(0);
    }
  });
}
