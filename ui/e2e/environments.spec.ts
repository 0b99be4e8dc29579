import { expect, test, type Page } from '@playwright/test';
import type { Environments } from './seed-environments';

// A service in production and in staging: taken together it says so, one click parts
// them, and the choice goes along from page to page.
const known = (): Environments => JSON.parse(process.env.TAILSCOPE_SEED_ENVIRONMENTS ?? '{}');
const range = () => `start=${known().start}&end=${known().end}`;
const path = (tab = '', extra = '') => `/services/${known().service}${tab && `/${tab}`}?${range()}${extra && `&${extra}`}`;
const choice = (page: Page) => page.locator('[data-popover="environment"]');

/** The matches of the questions that the page has asked. */
function matches(page: Page): string[] {
  const out: string[] = [];
  page.on('request', (r) => {
    const u = new URL(r.url());
    // What there is to choose from is asked of all.
    if (u.pathname.startsWith('/api/v1/') && !u.pathname.endsWith('/labels') && u.searchParams.get('match')) out.push(u.searchParams.get('match')!);
  });
  return out;
}

test('what takes environments together says so, and one click parts them', async ({ page }) => {
  await page.goto(path());
  const together = page.getByTestId('together');
  await expect(together).toContainText('2 environments are taken together: production (83 %), staging (17 %).');
  await expect(choice(page)).toContainText('all environments');
  const asked = matches(page);
  await together.getByRole('button', { name: 'Only staging' }).click();
  await expect(page).toHaveURL(/l\.environment==staging/);
  await expect(together).toHaveCount(0);
  await expect(choice(page)).toContainText('staging');
  await expect(page.getByTestId('facts')).toContainText(/p50\s*[89]\d\d ms/);
  for (const m of asked) expect(m).toMatch(/environment=~?"staging/);
  expect(asked.length).toBeGreaterThan(3);
  await page.goBack();
  await expect(together).toBeVisible();
});

test('every page of the service says so, and carries the choice', async ({ page }) => {
  for (const tab of ['', 'breakdown', 'operations', 'database', 'sla']) {
    await page.goto(path(tab));
    await expect(page.getByTestId('together'), tab).toContainText('environments are taken together');
    const asked = matches(page);
    await page.goto(path(tab, 'l.environment==production'));
    await expect(choice(page), tab).toContainText('production');
    await page.waitForLoadState('networkidle');
    await expect(page.getByTestId('together'), tab).toHaveCount(0);
    for (const m of asked) expect(m, tab).toMatch(/environment=~?"production/);
    page.removeAllListeners('request');
  }
});

test('the choice is made by keys, and goes along', async ({ page }) => {
  await page.goto(path());
  await expect(choice(page)).toBeVisible();
  await page.keyboard.press('e');
  const panel = page.getByRole('dialog', { name: 'Environment (e)' });
  await expect(panel.getByRole('button', { name: 'All together' })).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await expect(panel.getByRole('button', { name: /^production/ })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/l\.environment==production/);
  await page.getByRole('navigation', { name: 'Of this service' }).getByRole('link', { name: 'Where time goes' }).click();
  await expect(page).toHaveURL(/breakdown\?.*l\.environment==production/);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Compare' }).click();
  await expect(page).toHaveURL(/compare\?.*l\.environment==production/);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Services' }).click();
  await expect(choice(page)).toContainText('production');
  await page.keyboard.press('e');
  await page.getByRole('dialog', { name: 'Environment (e)' }).getByRole('button', { name: 'All together' }).click();
  await expect(page).not.toHaveURL(/environment/);
});

test('a service has a row for each environment, which leads to its own', async ({ page }) => {
  await page.goto(`/?${range()}&q=${known().service}`);
  const rows = page.getByRole('main').locator('tbody tr');
  await expect(rows).toHaveCount(2);
  await rows.filter({ hasText: 'staging' }).getByRole('link', { name: known().service }).click();
  await expect(page).toHaveURL(/l\.environment==staging/);
  await expect(page.getByTestId('together')).toHaveCount(0);
});

test('a service of one environment has no choice', async ({ page }) => {
  const seed = JSON.parse(process.env.TAILSCOPE_SEED ?? '{}');
  await page.goto(`/services/${seed.service}?start=${seed.start}&end=${seed.end}`);
  await expect(page.getByTestId('heatmap')).toBeVisible();
  await page.waitForLoadState('networkidle');
  await expect(choice(page)).toHaveCount(0);
  await expect(page.getByTestId('together')).toHaveCount(0);
});

test('a comparison has a verdict for each environment', async ({ page }) => {
  const { start, end, service } = known();
  const middle = (start + end) / 2;
  await page.goto(`/compare?l.service==${service}&a=${start}/${middle}&b=${middle}/${end}`);
  await expect(page.getByTestId('compare-warnings').locator('[data-code="environments"]')).toContainText('2 environments are taken together');
  const rows = page.getByTestId('by-environment').locator('tbody tr');
  await expect(rows).toHaveCount(2);
  await expect(rows.nth(0)).toContainText('regression');
  await expect(rows.nth(1)).not.toContainText('regression');
  await rows.nth(0).getByRole('button', { name: 'Only production' }).click();
  await expect(page).toHaveURL(/l\.environment==production/);
  await expect(page.getByTestId('by-environment')).toHaveCount(0);
});

test('which node has an answer, also where two systems have one operation', async ({ page }) => {
  await page.goto(path('breakdown', 'l.environment==production'));
  const rows = page.getByTestId('backends').locator('tbody tr');
  await expect(rows).toHaveCount(3);
  for (const node of ['riak-1', 'riak-2', 'mysql-1']) await expect(rows.filter({ hasText: node })).toHaveCount(1);
  await expect(rows.nth(2)).toContainText('mysql-1');
  await expect(page.getByTestId('parts').locator('tbody tr').filter({ hasText: 'get items' })).toHaveCount(2);
  await rows.filter({ hasText: 'riak-2' }).getByRole('link').click();
  await expect(page).toHaveURL(/l\.peer==riak-2/);
  await expect(page.getByTestId('facts')).toContainText(/rate/);
  await page.goto(path('database', 'l.environment==production'));
  await expect(page.getByTestId('ops').locator('tbody tr')).toHaveCount(2);
});

test('a mark has what was found in each environment, or in the one chosen', async ({ page }) => {
  const { start, end, service } = known();
  const time = (start + end) / 2;
  const side = { before: { start: time - 600, end: time }, after: { start: time, end: time + 600 } };
  const found = (environment: string, verdict: string) => ({
    service, environment, verdict, sentence: `p95 of ${service} in ${environment}`, ...side, shapes: [], measures: [], operations: [], tenants: [], tenants_judged: 0, warnings: [],
  });
  const mark = {
    id: 'deploy', name: 'deploy', time, service,
    verdict: { state: 'final', judged: time + 700, first: time + 300, next: null, step: 10, window: 600, verdict: 'regression', sentence: 'p95', services: [found('production', 'regression'), found('staging', 'no evidence')] },
  };
  await page.route('**/api/v1/marks?*', (r) => r.fulfill({ json: { marks: [mark], groups: [] } }));
  await page.route('**/api/v1/marks/deploy', (r) => r.fulfill({ json: mark }));
  await page.goto(`/services/${service}/marks/deploy?${range()}`);
  const verdicts = page.getByTestId('mark-verdict');
  await expect(verdicts).toHaveCount(2);
  await expect(verdicts.nth(0)).toHaveAttribute('data-environment', 'production');
  await expect(verdicts.nth(0)).toHaveAttribute('data-verdict', 'regression');
  await expect(verdicts.nth(1)).toHaveAttribute('data-verdict', 'no evidence');
  await page.getByTestId('together').getByRole('button', { name: 'Only staging' }).click();
  await expect(verdicts).toHaveCount(1);
  await expect(verdicts).toHaveAttribute('data-environment', 'staging');
});

test('a check that takes environments together says so in the list', async ({ page }) => {
  const check = {
    id: 'cart p99', name: 'cart p99', labels: { service: known().service }, unit: 's', source: 'query', schedule: 'every 10s', state: 'OK', level: 'OK', soft: false, since: known().start, last: known().end, next: known().end,
    value: 0.9, text: '', bands: { threshold: null, low_critical: null, low_warning: null, high_warning: null, high_critical: null }, flapping: false, receivers: [],
    warnings: ['2 environments are taken together: production (83 %), staging (17 %); name one: environment="production"'],
  };
  await page.route('**/api/v1/checks?*', (r) => r.fulfill({ json: { checks: [check], total: 1, counts: { OK: 1 }, receivers: [], files: ['checks.yaml'], lag: null, now: known().end } }));
  await page.goto('/checks');
  await expect(page.getByTestId('check-caution')).toContainText('2 environments are taken together');
  await expect(page.getByTestId('check-caution')).toContainText('environment="production"');
});
