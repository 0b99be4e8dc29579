// Colours of charts: tokens of app.css as "--accent", or colours as they are.

/** A token of app.css as it is now. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A colour for what is drawn on a canvas, this opaque. */
export function ink(colour: string, opacity?: number): string {
  const c = colour.startsWith('--') ? token(colour) : colour;
  return opacity !== undefined && c.startsWith('oklch(') ? c.replace(/( \/ [\d.]+)?\)$/, ` / ${opacity})`) : c;
}

/** A colour for a style; without one that of the style sheet. */
export const paint = (colour: string | undefined): string | undefined => (colour?.startsWith('--') ? `var(${colour})` : colour);
