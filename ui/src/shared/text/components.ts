// Components: where time goes. Their order is that of the stack, from the
// ground up; their colours are the tokens of app.css, the same on every page.

export const componentOrder = ['app', 'db', 'cache', 'external', 'messaging', 'queue'] as const;

export const componentNames: Record<string, string> = {
  app: 'app', db: 'database', cache: 'cache', external: 'external', messaging: 'messaging', queue: 'queue',
};

/** What each is, for a reader who meets the word for the first time. */
export const componentMeaning: Record<string, string> = {
  app: 'Code, of the service and of those it calls that send spans: time in which nothing else was being waited for',
  db: 'Waiting for a database',
  cache: 'Waiting for a cache',
  external: 'Waiting for another service, as far as that does not send spans of its own',
  messaging: 'Sending to and receiving from a queue of messages',
  queue: 'Waiting before the request was taken up, not part of its duration',
};

/** A component's name; one that nobody foresaw keeps its own. */
export function componentName(c: string): string {
  return componentNames[c] ?? c;
}

/** The token of app.css with a component's colour. */
export function componentToken(c: string): string {
  return c in componentNames ? `--${c}` : '--other';
}

/** Sorts components in the order of the stack, unknown ones last by name. */
export function byComponent(a: string, b: string): number {
  const rank = (c: string) => {
    const i = (componentOrder as readonly string[]).indexOf(c);
    return i < 0 ? componentOrder.length : i;
  };
  return rank(a) - rank(b) || a.localeCompare(b);
}
