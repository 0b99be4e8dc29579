// Names for what schema.ts says in full.

export type Num = number | null;
export type Labels = Record<string, string>;

/** How many of each, by name. */
export type Counts = Record<string, number>;
