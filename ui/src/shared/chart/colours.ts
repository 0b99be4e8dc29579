// The colours of the page, in OKLCH: on a light ground, on a dark one. Grey for
// everything that is not data; one accent; the ramp's colours are in ramp.ts. Every
// text colour keeps 4.5:1 on its ground. The build writes them into app.css.

/** Lightness 0 to 1, chroma, hue in degrees, and opacity if it is not 1. */
export type Colour = readonly [number, number, number, number?];

/** Also what heatmaps are painted on. */
export const ground: readonly [Colour, Colour] = [[0.992, 0.002, 90], [0.165, 0.012, 265]];

export const colours: Record<string, readonly [Colour, Colour]> = {
  ground,
  raised: [[0.97, 0.003, 265], [0.205, 0.014, 265]],
  line: [[0.9, 0.004, 90], [0.29, 0.014, 265]],
  'line-strong': [[0.62, 0.006, 90], [0.56, 0.014, 265]],
  text: [[0.24, 0.012, 265], [0.93, 0.006, 265]],
  muted: [[0.475, 0.012, 265], [0.71, 0.014, 265]],
  accent: [[0.45, 0.17, 264], [0.76, 0.12, 262]],
  'accent-ground': [[0.945, 0.025, 264], [0.27, 0.05, 264]],
  'on-accent': [[0.99, 0, 0], [0.16, 0.02, 265]],
  mean: [[0.62, 0.19, 47], [0.79, 0.16, 62]],
  'mean-text': [[0.5, 0.15, 47], [0.82, 0.14, 62]],
  // Amber, so that no eye takes it for the red of what is critical.
  warning: [[0.66, 0.14, 80], [0.84, 0.15, 88]],
  quantile: [[0.53, 0.21, 350], [0.74, 0.19, 350]],
  error: [[0.52, 0.2, 27], [0.74, 0.16, 27]],
  'error-ground': [[0.96, 0.02, 27], [0.25, 0.05, 27]],
  better: [[0.47, 0.1, 165], [0.77, 0.12, 165]],
  'side-a': [[0.5, 0.012, 265], [0.68, 0.014, 265]],
  grid: [[0.24, 0.012, 265, 0.09], [0.93, 0.006, 265, 0.1]],
  casing: [[0.992, 0.002, 90, 0.85], [0.165, 0.012, 265, 0.8]],
  mark: [[0.3, 0.012, 265], [0.86, 0.01, 265]],
  // Where time goes: the same colour for the same component everywhere. Told apart
  // with any colour vision, 3:1 on the ground (shared/text/components.test.ts).
  app: [[0.565, 0.175, 268], [0.595, 0.2, 272]],
  db: [[0.575, 0.135, 45], [0.7, 0.165, 50]],
  cache: [[0.645, 0.1, 180], [0.805, 0.115, 168]],
  external: [[0.44, 0.19, 336], [0.64, 0.16, 337]],
  messaging: [[0.655, 0.135, 92], [0.875, 0.165, 98]],
  queue: [[0.35, 0.01, 265], [0.56, 0.01, 265]],
  find: [[0.69, 0.1, 60], [0.78, 0.12, 62]],
  save: [[0.44, 0.125, 40], [0.54, 0.15, 40]],
  rest: [[0.86, 0.005, 265], [0.36, 0.01, 265]],
  other: [[0.52, 0.01, 265], [0.95, 0.01, 265]],
  // Three hours of the day each, from midnight on: hues go round as the day does.
  ...Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`hours-${i}`, [[0.56, 0.14, (264 + 45 * i) % 360], [0.74, 0.13, (264 + 45 * i) % 360]] as const])),
};

const oklch = ([l, c, h, opacity]: Colour) => `oklch(${l} ${c} ${h}${opacity === undefined ? '' : ` / ${opacity}`})`;

/** The colours as tokens of a style sheet: light, dark if the system is and the reader chose nothing, dark if the reader did. On paper it is light, whatever the screen is. */
export function themeCss(): string {
  const block = (selector: string, scheme: 'light' | 'dark') =>
    [`${selector} {`, `  color-scheme: ${scheme};`, ...Object.entries(colours).map(([name, of]) => `  --${name}: ${oklch(of[scheme === 'light' ? 0 : 1])};`), '}'].join('\n');
  return [
    block(':root', 'light'),
    `@media screen and (prefers-color-scheme: dark) {\n${block(":root:not([data-theme='light'])", 'dark')}\n}`,
    `@media screen {\n${block(":root[data-theme='dark']", 'dark')}\n}`,
  ].join('\n');
}
