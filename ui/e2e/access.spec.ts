// WCAG 2.1 A and AA by axe, on every page, light and dark.
import AxeBuilder from '@axe-core/playwright';
import { expect, test } from '@playwright/test';
import { known, servicePath, settled } from './page';

for (const scheme of ['light', 'dark'] as const) {
  test(`no page breaks WCAG AA, ${scheme}`, async ({ page }) => {
    test.setTimeout(180_000); // axe is slow on a busy machine
    const s = known();
    const range = `start=${s.start}&end=${s.end}`;
    await page.emulateMedia({ colorScheme: scheme });
    for (const path of [`/?${range}`, servicePath('axis=linear&cap=0.2'), `/tenants?${range}`, `/families?${range}`]) {
      await page.goto(path);
      await expect(page.locator('main table').first()).toBeVisible();
      if (path.startsWith('/services/')) {
        await settled(page);
        await page.getByTestId('heatmap').focus();
        await page.keyboard.press('ArrowLeft');
      }
      const found = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']).analyze();
      const told = found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`);
      expect(told, path).toEqual([]);
    }
    await page.keyboard.press('?');
    const help = await new AxeBuilder({ page }).include('dialog').withTags(['wcag2a', 'wcag2aa']).analyze();
    expect(help.violations.map((v) => v.id)).toEqual([]);
  });
}
