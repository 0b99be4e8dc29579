// Requests like the one pointed at. Pure.

/** Whether a kept request is what a reader who pointed there meant: about as long, about then. */
export function isLike(r: { start: number; duration: number }, t: number, v: number, step: number): boolean {
  const ratio = r.duration > v ? r.duration / v : v / r.duration;
  const near = Math.max(120, 2 * step);
  return ratio <= 1.5 && r.start > t - near && r.start < t + near;
}
