// WCAG 2.1 A and AA by axe, on every page, light and dark.
import { expect, test } from '@playwright/test';
import { accessFaults, known, servicePath, settled } from './page';

for (const scheme of ['light', 'dark'] as const) {
  test(`no page breaks WCAG AA, ${scheme}`, async ({ page }) => {
    test.setTimeout(180_000); // axe is slow on a busy machine
    const s = known();
    const range = `start=${s.start}&end=${s.end}`;
    await page.emulateMedia({ colorScheme: scheme });
    for (const path of [`/?${range}`, servicePath('axis=linear&cap=0.2'), `/tenants?${range}`, `/families?${range}`, `/cluster`]) {
      await page.goto(path);
      await expect(page.locator('main table').first()).toBeVisible();
      if (path.startsWith('/services/')) {
        await settled(page);
        await page.getByTestId('heatmap').focus();
        await page.keyboard.press('ArrowLeft');
      }
      expect(await accessFaults(page, scheme), path).toEqual([]);
    }
    await page.keyboard.press('?');
    expect(await accessFaults(page, scheme, 'dialog')).toEqual([]);
  });
}
