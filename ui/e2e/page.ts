// What the tests share: the seeded data, the service page, and the cursor.
import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page } from '@playwright/test';
import type { Seed } from './seed';

export const known = (): Seed => JSON.parse(process.env.TAILSCOPE_SEED ?? '{}');

/** The address of the seeded service, in the seeded range. */
export function servicePath(extra = ''): string {
  const s = known();
  return `/services/${s.service}?start=${s.start}&end=${s.end}${extra && `&${extra}`}`;
}

export async function openService(page: Page, extra = ''): Promise<void> {
  await page.goto(servicePath(extra));
  await settled(page);
}

/** Waits until the picture is there and not dimmed. */
export async function settled(page: Page): Promise<void> {
  await expect(page.getByTestId('heatmap')).toBeVisible();
  await expect(page.getByTestId('heatmap')).not.toHaveClass(/dimmed/);
}

/** Points at a fraction of the picture, from its top left. */
export async function pointAt(page: Page, fx: number, fy: number): Promise<{ x: number; y: number }> {
  const box = await page.getByTestId('heatmap').boundingBox();
  if (!box) throw new Error('the heatmap is not on the page');
  const at = { x: box.x + box.width * fx, y: box.y + box.height * fy };
  await page.mouse.move(at.x, at.y);
  return at;
}

export interface Reading {
  state: string;
  text: string;
  start: number;
  end: number;
  low: number;
  high: number;
  count: number;
  at: number;
  below: number;
  same: number;
  above: number;
}

export async function reading(page: Page): Promise<Reading> {
  return page.getByTestId('readout').evaluate((e: HTMLElement) => {
    const d = e.dataset;
    const n = (s: string | undefined) => (s === undefined ? NaN : Number(s));
    return {
      state: d.state ?? '', text: (e.textContent ?? '').replace(/\s+/g, ' ').trim(), start: n(d.start), end: n(d.end), low: n(d.low), high: n(d.high),
      count: n(d.count), at: n(d.at), below: n(d.below), same: n(d.same), above: n(d.above),
    };
  });
}

const wcagAA = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'];

/** What breaks WCAG 2.1 A or AA by axe. Schemes differ in colours alone, so that dark is held against the rules of those. */
export async function accessFaults(page: Page, scheme: 'light' | 'dark', within?: string): Promise<string[]> {
  const axe = new AxeBuilder({ page });
  if (within) axe.include(within);
  const found = await (scheme === 'dark' ? axe.withRules(['color-contrast', 'link-in-text-block']) : axe.withTags(wcagAA)).analyze();
  return found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`);
}

/** Asks the API, as the page does. */
export async function ask<T>(page: Page, path: string, params: Record<string, string | number>): Promise<T> {
  const q = new URLSearchParams(Object.entries(params).map(([k, v]) => [k, String(v)]));
  const res = await page.request.get(`/api/v1/${path}?${q}`);
  expect(res.ok(), `${path} answers ${res.status()}`).toBe(true);
  return res.json();
}

/** The names of the lines of a plot; of those that others are held against, or of the others, if that is said. */
export async function linesOf(plot: Locator, faint?: boolean): Promise<string[]> {
  const names = (await plot.getAttribute('data-lines'))?.split('; ').filter(Boolean) ?? [];
  return faint === undefined ? names : names.filter((n) => n.endsWith('(faint)') === faint);
}
