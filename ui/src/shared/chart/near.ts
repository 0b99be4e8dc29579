// A long list draws what is in sight; the rest follows as it comes near, or is printed.

const waiting = new Map<Element, () => void>();
let observer: IntersectionObserver | undefined;

function arrive(elements: Element[]): void {
  for (const e of elements) {
    const then = waiting.get(e);
    leave(e);
    then?.();
  }
}

function leave(e: Element): void {
  waiting.delete(e);
  observer?.unobserve(e);
}

/** Calls then once an element is near what is seen, unless the function returned is called before. */
export function whenNear(e: Element, then: () => void): () => void {
  if (!observer) {
    observer = new IntersectionObserver((seen) => arrive(seen.filter((x) => x.isIntersecting).map((x) => x.target)), { rootMargin: '300px' });
    addEventListener('beforeprint', () => arrive([...waiting.keys()]));
  }
  waiting.set(e, then);
  observer.observe(e);
  return () => leave(e);
}
