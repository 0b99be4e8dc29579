// What a first view asks for, and what it shows until the answers are there.
import { expect, test, type Page, type Route } from '@playwright/test';
import { known } from './page';

/** What the page asks from now on, each as its path and parameters, without the status. */
function questions(page: Page): URL[] {
  const all: URL[] = [];
  page.on('request', (r) => {
    const u = new URL(r.url());
    if (u.pathname.startsWith('/api/v1/') && !u.pathname.endsWith('/status')) all.push(u);
  });
  return all;
}

/** The status of a server whose first spans came so many seconds ago. */
async function begunAgo(page: Page, seconds: number): Promise<void> {
  await page.route('**/api/v1/status', async (route) => {
    const res = await route.fetch();
    const s = await res.json();
    await route.fulfill({ response: res, json: { ...s, first: s.now - seconds } });
  });
}

const times = (all: URL[], name: string) => all.filter((u) => u.pathname === `/api/v1/${name}`).length;

test.afterEach(({ page }) => page.unrouteAll({ behavior: 'ignoreErrors' }));

test('a first view asks for each thing once, in the range that has data', async ({ page }) => {
  await begunAgo(page, 3000);
  const all = questions(page);
  await page.goto('/?live=0');
  await expect(page.getByTestId('services')).toBeVisible();
  await expect(page.getByTestId('now')).toHaveAttribute('aria-busy', 'false');
  await page.waitForTimeout(500);
  expect(new URL(page.url()).searchParams.get('range')).toBe('1h');
  expect(['services', 'checks', 'incidents', 'labels', 'families'].map((name) => times(all, name))).toEqual([1, 1, 1, 1, 1]);
  const changes = all.filter((u) => u.pathname === '/api/v1/changes').map((u) => u.searchParams.get('known') ?? 'full');
  expect(changes.join()).toMatch(/^true(,true)*(,full)?$/); // what is known each second while something is unsearched, in full if that was kept
  for (const u of all.filter((u) => u.searchParams.has('start'))) {
    expect(Number(u.searchParams.get('end')) - Number(u.searchParams.get('start')), u.pathname).toBe(3600);
  }
});

test('a first view of a service asks for its distribution once', async ({ page }) => {
  await begunAgo(page, 3000);
  const all = questions(page);
  await page.goto(`/services/${known().service}?live=0`);
  await expect.poll(() => times(all, 'heatmap')).toBe(1);
  await page.waitForTimeout(1000);
  expect(times(all, 'heatmap')).toBe(1);
});

test('a first view of what is not narrowed keeps its range', async ({ page }) => {
  await begunAgo(page, 3000);
  for (const path of ['/checks', '/sessions', '/marks']) {
    const status = page.waitForResponse('**/api/v1/status');
    await page.goto(path);
    await status;
    await page.waitForTimeout(300);
    expect(new URL(page.url()).search, path).toBe('');
  }
});

test('a first view does not wait for a status that fails, nor for long for one that does not come', async ({ page }) => {
  await page.route('**/api/v1/status', (route) => route.abort());
  await page.goto('/');
  await expect(page.getByTestId('services')).toBeVisible();
  await page.unrouteAll();
  await page.route('**/api/v1/status', () => {});
  await page.goto('/');
  await expect(page.getByTestId('services')).toBeVisible();
});

test('what is known of changes is shown while all is searched anew', async ({ page }) => {
  const held: Route[] = [];
  const answer = async (route: Route, kept: boolean) => {
    const res = await route.fetch();
    await route.fulfill({ response: res, json: { ...(await res.json()), changes: [], kept } });
  };
  await page.route('**/api/v1/changes?*', (route) => (route.request().url().includes('known=true') ? answer(route, true) : void held.push(route)));
  await page.goto('/?live=0');
  const now = page.getByTestId('now');
  await expect.poll(() => held.length).toBe(1);
  await expect(now).toHaveAttribute('aria-busy', 'false');
  await expect(now).toContainText(/no moments at which requests became worse/i);
  await answer(held[0], false);
  await page.waitForTimeout(300);
  expect(held).toHaveLength(1);
});

test('it is not said that nothing is wrong before the services are known', async ({ page }) => {
  let release = () => {};
  const waits = new Promise<void>((done) => (release = done));
  await page.route('**/api/v1/services?*', async (route) => {
    await waits;
    await route.continue();
  });
  await page.goto('/?live=0');
  const now = page.getByTestId('now');
  await expect(now).toContainText(/moments? at which requests became worse/i);
  await expect(now).toHaveAttribute('aria-busy', 'true');
  await expect(now).not.toContainText('Nothing is wrong');
  release();
  await expect(now).toHaveAttribute('aria-busy', 'false');
});

test('why it is not known what changed is said', async ({ page }) => {
  await page.route('**/api/v1/changes?*', (route) => route.fulfill({ status: 422, json: { error: { code: 'too_many', message: 'the answer takes 257 MiB; shorten the range' } } }));
  await page.goto('/?live=0');
  await expect(page.getByTestId('now')).toContainText(/what changed could not be read: the answer takes 257 MiB; shorten the range/i);
});
