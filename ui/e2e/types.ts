// The parts of the API's answers that the tests look at, without their nulls.
export interface DistributionResponse {
  groups: { count: number; quantiles: Record<string, number>; at: { below: number; same: number; above: number; low: number; high: number }[] }[];
}

export interface HeatmapResponse {
  count: number;
}

export interface MarksOf {
  marks: { id: string; name: string; time: number; service?: string; description?: string }[];
}
