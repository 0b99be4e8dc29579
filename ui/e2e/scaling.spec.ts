// How far a system goes: searches for capacity and simulations of the log book, the
// page that simulates, and the scalability law of what was stored.
import { expect, test } from '@playwright/test';
import { accessFaults, known as seeded, linesOf } from './page';
import { capacityReport, type Scaled } from './seed-scaling';
import { put } from './seed-experiments';

const server = process.env.TAILSCOPE_URL ?? 'http://127.0.0.1:7099';
const known = (): Scaled => JSON.parse(process.env.TAILSCOPE_SEED_SCALING ?? '{}');

test('the list has both kinds, with what came of them', async ({ page }) => {
  const k = known();
  await page.goto('/sessions?kind=capacity');
  await expect(page.locator(`[data-session="${k.capacity}"]`)).toContainText('found');
  await expect(page.locator(`[data-session="${k.capacity}"]`)).toContainText('848');
  await expect(page.locator(`[data-session="${k.nodes}"]`)).toHaveCount(0);
  await page.getByRole('button', { name: 'Simulation', exact: true }).click();
  await expect(page.locator(`[data-session="${k.split}"]`)).toContainText('binary, arbitrary, by nodes');
});

test('a search for capacity: the answer, every step, the objective and the law', async ({ page }) => {
  await page.goto(`/sessions/${known().capacity}`);
  await expect(page.getByTestId('capacity-headline')).toContainText('found');
  await expect(page.getByTestId('capacity-facts')).toContainText('836 … 861/s, 95 % interval');
  await expect(page.getByTestId('capacity-facts')).toContainText('310 ms');
  const steps = page.getByTestId('steps');
  await expect.poll(() => steps.locator('canvas').getAttribute('data-drawn').then(Number)).toBeGreaterThan(500);
  await expect(steps.locator('.sign.broken')).toHaveCount(4);
  await expect(steps.locator('.sign.kept')).toHaveCount(6);
  // By keys: the lightest load first, the last one is the heaviest and was stopped.
  await steps.locator('.host').focus();
  await page.keyboard.press('Home');
  await expect(page.getByTestId('steps-reading')).toContainText('100/s, step 1 (rise), kept');
  await page.keyboard.press('End');
  await expect(page.getByTestId('steps-reading')).toContainText('1,131/s, step 5 (rise), broken');
  await expect(page.getByTestId('steps-reading')).toContainText('Stopped: p99 is surely above 200 ms, 310 ms after');
  await page.keyboard.press('ArrowUp');
  await expect(page.getByTestId('steps-reading')).toContainText(/requests at .*, \d.* below, .* above/);
  await page.getByRole('button', { name: 'as taken' }).click();
  await expect(page).toHaveURL(/order=time/);
  await steps.locator('.host').focus();
  await page.keyboard.press('End');
  await expect(page.getByTestId('steps-reading')).toContainText('845/s, step 11 (confirm)');
  const plot = page.getByTestId('objective-plot');
  await expect(plot.locator('.dot')).toHaveCount(11);
  await expect(plot.locator('.dot.hollow')).toHaveCount(1);
  await plot.focus();
  await page.keyboard.press('End');
  await expect(page.getByText('1,131/s (step 5): p99 2.76 s')).toBeVisible();
  await page.getByRole('group', { name: 'Condition' }).getByRole('button', { name: 'errors < 0.1%' }).click();
  await expect(page).toHaveURL(/objective=errors/);
  expect((await linesOf(page.getByTestId('law-plot'))).filter((name) => name.startsWith('the law'))).toHaveLength(2);
  await expect(page.getByTestId('sheet-law')).toContainText('κ');
  await expect(page.getByTestId('sheet-steps')).toContainText('Step 3 does not count: the generator was late');
});

test('a search that runs shows where it is, and is told to stop', async ({ page }) => {
  const k = known();
  await put(server, k.live, capacityReport(k.service, k.start, false));
  await page.goto(`/sessions/${k.live}`);
  await expect(page.getByTestId('capacity-progress')).toContainText('Step 6: 951 requests/s');
  await expect(page.getByTestId('steps').locator('.sign')).toHaveCount(5);
  await page.getByRole('button', { name: 'Stop…' }).click();
  await expect(page.getByRole('dialog')).toContainText('puts the load or the pool back as it was');
  await page.getByRole('button', { name: 'Stop it' }).click();
  await expect(page.getByRole('button', { name: 'Asked to stop' })).toBeDisabled();
  await put(server, k.live, capacityReport(k.service, k.start, true));
});

test('a pool that was not put back is the first thing said', async ({ page }) => {
  await page.goto(`/sessions/${known().servers}`);
  await expect(page.getByTestId('capacity-alarm')).toContainText('The pool was not put back as it was: server 5');
  await page.getByTestId('steps').locator('.host').focus();
  await page.keyboard.press('End');
  await expect(page.getByTestId('steps-reading')).toContainText('3 servers');
});

test('a simulation: curves with their stairs, the table, and work that is watched', async ({ page }) => {
  await page.goto(`/sessions/${known().nodes}`);
  const plot = page.getByTestId('layout-curves');
  await expect.poll(() => linesOf(plot, false)).toHaveLength(3);
  await expect.poll(() => linesOf(plot, true)).toHaveLength(3);
  await expect(plot.locator('.unstable')).toHaveCount(1);
  await plot.focus();
  await page.keyboard.press('Home');
  await expect(page.getByText('unstable, nodes would be busy').first()).toBeVisible();
  await page.keyboard.press('End');
  await expect(page.getByText(/16 nodes: p50/).first()).toBeVisible();
  await page.getByRole('group', { name: 'Scale of nodes' }).getByRole('button', { name: 'log' }).click();
  await expect(page).toHaveURL(/xscale=log/);
  await page.getByRole('checkbox', { name: 'on idle nodes' }).uncheck();
  await expect.poll(() => linesOf(plot, true)).toHaveLength(0);
  await expect(page.getByTestId('sheet-layouts').locator('tbody tr')).toHaveCount(16);
  // Two layouts beside each other, on one clock.
  const views = page.getByTestId('work');
  await expect(views).toHaveCount(2);
  const left = views.first().getByRole('slider');
  const right = views.nth(1).getByRole('slider');
  await left.focus();
  await page.keyboard.press('Home');
  await expect(left).toHaveAttribute('aria-valuenow', '0');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  await expect(views.first().getByTestId('work-reading')).toContainText(/units? runs?/);
  await page.keyboard.press('Space');
  await expect(page.getByRole('button', { name: 'Pause' })).toBeVisible();
  await expect.poll(() => left.getAttribute('aria-valuenow').then(Number)).toBeGreaterThan(2);
  await page.keyboard.press('Space');
  await expect(page.getByRole('button', { name: 'Play' })).toBeVisible();
  await page.keyboard.press('End');
  await expect(right).toHaveAttribute('aria-valuenow', '100');
  const box = (await left.boundingBox())!;
  await page.mouse.click(box.x + box.width / 2, box.y + box.height - 30);
  await expect.poll(() => right.getAttribute('aria-valuenow').then(Number)).toBeLessThan(75);
  await page.getByLabel('Right layout').selectOption('');
  await expect(views).toHaveCount(1);
});

test('of several curves one quantile at a time', async ({ page }) => {
  await page.goto(`/sessions/${known().split}`);
  const plot = page.getByTestId('layout-curves');
  await expect.poll(() => linesOf(plot, false)).toHaveLength(2);
  await expect(plot).toContainText('arbitrary');
  await page.getByRole('group', { name: 'Quantile' }).getByRole('button', { name: 'p50' }).click();
  await expect(page).toHaveURL(/figure=p50/);
  await expect(plot).toHaveAttribute('aria-label', /^p50 of whole queries/);
});

test('the page simulates what its form says, and the link does so again', async ({ page }) => {
  await page.goto('/simulate');
  await expect(page.getByTestId('simulate-missing')).toContainText('Say what a leaf takes');
  await page.getByLabel('or takes').fill('{exponential: 5ms}');
  await page.getByLabel('Rate').fill('30');
  await page.getByLabel('Threads a node').fill('2');
  await page.getByLabel('Nodes', { exact: true }).fill('1..6');
  await page.getByLabel('Nodes', { exact: true }).blur();
  await page.getByText('The file', { exact: true }).click();
  await expect(page.getByLabel('The file of the simulation')).toHaveValue(/vary: \{nodes: 1\.\.6\}/);
  await page.getByRole('button', { name: 'Simulate', exact: true }).click();
  await expect(page.getByTestId('simulation-headline')).toContainText('p99', { timeout: 30_000 });
  await expect(page.getByTestId('sheet-layouts').locator('tbody tr')).toHaveCount(6);
  await expect(page.getByTestId('sheet-layouts')).toContainText('unstable');
  await expect(page.getByTestId('work-play')).toBeVisible();
  await expect(page).toHaveURL(/run=1/);
  await page.reload();
  await expect(page.getByTestId('layout-curves')).toBeVisible({ timeout: 30_000 });
  // What is wrong in a file edited by hand is said with its line.
  const file = page.getByLabel('The file of the simulation');
  if (!(await file.isVisible())) await page.getByText('The file', { exact: true }).click();
  await file.fill('simulate: a\nleaves:\n  - from: {takes: 5ms}\nlayout:\n  nods: 3\n  shards: 4\n  rate: 1\n');
  await file.blur();
  await page.getByRole('button', { name: 'Simulate', exact: true }).click();
  await expect(page.getByTestId('simulate-wrong')).toContainText('nodes');
  await expect(page.getByTestId('simulate-wrong')).toContainText(':5:');
  await page.getByRole('button', { name: 'Back to the form' }).click();
  await expect(page.getByLabel('Nodes', { exact: true })).toHaveValue('1..6');
});

test('the scalability law of a service, from its tabs', async ({ page }) => {
  const s = seeded();
  await page.goto(`/services/${s.service}?start=${s.start}&end=${s.end}`);
  await page.getByRole('navigation', { name: 'Of this service' }).getByRole('link', { name: 'Scaling' }).click();
  await expect(page).toHaveURL(/\/scaling\?.*service=/);
  await expect(page.getByTestId('law-headline')).toBeVisible();
  await expect(page.getByTestId('law-plot')).toBeVisible();
  await page.goto('/scaling');
  await expect(page.getByTestId('no-service')).toContainText('Whose throughput?');
});

for (const scheme of ['light', 'dark'] as const) {
  test(`capacity and simulations keep WCAG AA and the width of a phone, ${scheme}`, async ({ page }) => {
    test.setTimeout(120_000);
    await page.emulateMedia({ colorScheme: scheme });
    const k = known();
    const s = seeded();
    for (const path of [`/sessions/${k.capacity}`, `/sessions/${k.servers}`, `/sessions/${k.nodes}`, `/sessions/${k.split}`, '/simulate', `/scaling?service=${s.service}&start=${s.start}&end=${s.end}`]) {
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.goto(path);
      await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
      await page.waitForLoadState('networkidle');
      expect(await accessFaults(page, scheme), path).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      await expect.poll(() => page.evaluate(() => document.scrollingElement!.scrollWidth - innerWidth), { message: path }).toBeLessThanOrEqual(0);
    }
  });
}
