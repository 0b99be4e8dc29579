/**
 * Records how long a part of drawing took, for the browser's performance panel
 * and the tests. Only the last of each name is kept: the page may stay open for
 * weeks.
 */
export function measured(name: 'parse' | 'prepare' | 'paint', began: number): void {
  performance.clearMeasures(`tailscope:${name}`);
  performance.measure(`tailscope:${name}`, { start: began, end: performance.now() });
}
