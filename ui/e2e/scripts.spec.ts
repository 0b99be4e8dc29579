// Every page is drawn by a script of its own: while it is under way the page
// before it stays, and one that does not come says what to do.
import { expect, test, type Page } from '@playwright/test';

/** Holds back the script of a page until it is let go, or refuses it. */
async function hold(page: Page, name: string, how: 'wait' | 'fail'): Promise<() => void> {
  let go = () => {};
  const gone = new Promise<void>((done) => (go = done));
  await page.route(new RegExp(`/assets/${name}-[^/]*\\.js$`), async (route) => {
    if (how === 'fail') return route.abort();
    await gone;
    return route.continue();
  });
  return go;
}

test('a page stays, and its address, until the next one can be drawn', async ({ page }) => {
  const go = await hold(page, 'Marks', 'wait');
  await page.goto('/checks');
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Checks');
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Marks' }).click();
  await expect(page.locator('.track.on')).toHaveCount(1);
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Checks');
  await expect(page).toHaveURL(/\/checks/);
  go();
  await expect(page).toHaveURL(/\/marks/);
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Marks');
  await expect(page.locator('.track.on')).toHaveCount(0);
  await page.goBack();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Checks');
  await page.goForward();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Marks');
});

test('of two links the last one counts', async ({ page }) => {
  const go = await hold(page, 'Marks', 'wait');
  await page.goto('/checks');
  const nav = page.getByRole('navigation', { name: 'Main' });
  await nav.getByRole('link', { name: 'Marks' }).click();
  await nav.getByRole('link', { name: 'Metrics' }).click();
  await expect(page).toHaveURL(/\/families/);
  const came = page.waitForResponse(/\/assets\/Marks-/);
  go();
  await (await came).finished();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Metrics');
  await expect(page).toHaveURL(/\/families/);
});

test('a script that does not come says what to do, and the page before it stays', async ({ page }) => {
  await hold(page, 'Marks', 'fail');
  await page.goto('/checks');
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Marks' }).click();
  const alert = page.getByRole('alert').filter({ hasText: 'could not be read' });
  await expect(alert).toContainText('the script that shows it did not come');
  await expect(alert).toContainText('If it was updated since this page was opened');
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Checks');
  await page.unrouteAll();
  await alert.getByRole('button', { name: 'Try again' }).click();
  await expect(page).toHaveURL(/\/marks/);
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Marks');
  await expect(alert).toBeHidden();
});

test('a script that does not come when the page is opened says so too', async ({ page }) => {
  await hold(page, 'Checks', 'fail');
  await page.goto('/checks');
  const alert = page.getByRole('alert');
  await expect(alert).toContainText('the script that shows it did not come');
  await page.unrouteAll();
  await alert.getByRole('button', { name: 'Try again' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Checks');
});
