import { expect, test } from '@playwright/test';
import { known } from './page';

// Cohorts above, a page of tenants below, and one beside everybody else; all in
// the address.
const path = (extra = '') => `/tenants?start=${known().start}&end=${known().end}&l.service=%3D${known().service}${extra && `&${extra}`}`;

test('cohorts add up to everyone, and a cohort filters the list', async ({ page }) => {
  await page.goto(path());
  const cohorts = page.getByTestId('cohorts');
  await expect(cohorts.locator('tbody tr').last()).toContainText('everyone');
  await expect(cohorts.locator('tbody tr').last()).toContainText(String(known().tenants));
  await expect(page.getByTestId('cohort-lines').locator('figure').first()).toBeVisible();
  await cohorts.getByRole('button', { name: 'very large', exact: true }).click();
  await expect(page).toHaveURL(/cohort=very\+large/);
  await expect(page.getByTestId('tenants').locator('tbody tr')).toHaveCount(1);
  await expect(page.getByTestId('tenants').locator('tbody tr')).toContainText('acme');
  await page.goBack();
  await expect(page.getByTestId('tenants').locator('tbody tr')).toHaveCount(50);
});

test('the server says for whom slow requests are not rare', async ({ page }) => {
  await page.goto(path('slow=300ms'));
  await page.getByRole('button', { name: 'Slow is not rare' }).click();
  await expect(page).toHaveURL(/notrare=1/);
  const rows = page.getByTestId('tenants').locator('tbody tr');
  await expect(rows.first()).toContainText('acme');
  await expect(rows.first()).toContainText('not rare');
  await page.goto(path('slow=10s&notrare=1'));
  await expect(rows).toHaveCount(1);
  await expect(rows).toContainText('Choose a shorter time');
});

test('a tenant opens beside everybody else', async ({ page }) => {
  await page.goto(path());
  await page.getByTestId('tenants').getByRole('button', { name: 'acme', exact: true }).click();
  await expect(page).toHaveURL(/tenant=acme/);
  const detail = page.getByTestId('tenant-detail');
  await expect(detail.getByTestId('verdict')).toBeVisible();
  await expect(detail).toContainText('everybody else');
  await expect(detail.getByTestId('compare-cdf')).toBeVisible();
  await expect(detail.getByRole('link', { name: 'Heatmap' })).toHaveAttribute('href', /l\.tenant=%?3?D?=?acme/);
  await detail.getByRole('button', { name: 'Close' }).click();
  await expect(detail).toHaveCount(0);
});

test('what the address says that there is not leaves the controls, and is said', async ({ page }) => {
  await page.goto(path('slow=abc&cohort=huge&sort=nonsense'));
  await expect(page.getByText('There is no cohort “huge”')).toBeVisible();
  await expect(page.getByText('“abc” is not a time')).toBeVisible();
  await expect(page.getByTestId('tenants').locator('tbody tr')).toHaveCount(50);
  await page.getByLabel('slow is beyond').selectOption('300ms');
  await expect(page.getByText('“abc” is not a time')).toHaveCount(0);
  await expect(page).toHaveURL(/slow=300ms/);
});

test('an answer that fails leaves the controls', async ({ page }) => {
  await page.route('**/api/v1/tenants?*', (r) => r.fulfill({ status: 503, json: { error: { code: 'unavailable', message: 'no' } } }));
  await page.goto(path());
  await expect(page.getByRole('alert')).toBeVisible();
  await expect(page.getByLabel('slow is beyond')).toBeVisible();
});
