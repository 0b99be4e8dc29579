import { afterAll, beforeAll, expect, test, vi } from 'vitest';

type Seen = { target: Element; isIntersecting: boolean };
let see: (seen: Seen[]) => void = () => {};
const print: (() => void)[] = [];

beforeAll(() => {
  vi.stubGlobal('IntersectionObserver', class {
    constructor(callback: (seen: Seen[]) => void) {
      see = callback;
    }
    observe() {}
    unobserve() {}
  });
  vi.stubGlobal('addEventListener', (name: string, f: () => void) => name === 'beforeprint' && print.push(f));
});
afterAll(() => vi.unstubAllGlobals());

test('what comes near is drawn once, what is left is not, and all of the rest is printed', async () => {
  const { whenNear } = await import('./near');
  const [a, b, c] = [{}, {}, {}] as Element[];
  const drawn: string[] = [];
  whenNear(a, () => drawn.push('a'));
  whenNear(b, () => drawn.push('b'));
  const leave = whenNear(c, () => drawn.push('c'));
  see([{ target: a, isIntersecting: true }, { target: b, isIntersecting: false }]);
  see([{ target: a, isIntersecting: true }]);
  expect(drawn).toEqual(['a']);
  leave();
  see([{ target: c, isIntersecting: true }]);
  print.forEach((f) => f());
  expect(drawn).toEqual(['a', 'b']);
});
