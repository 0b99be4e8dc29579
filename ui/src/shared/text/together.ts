// The server's warning that several environments are taken together, for a page that
// offers the choice itself. Pure.

/** The sentence of the first such warning, without what to write in match; empty if there is none. */
export function togetherText(of: (string[] | undefined)[]): string {
  const text = of.flatMap((w) => w ?? []).find((w) => / environments are taken together: /.test(w)) ?? '';
  return text.replace(/; name one: .*$/, '').replaceAll(' %', '\u00a0%');
}
