// Families that nobody sent: Tailscope makes them from traces, for its pages.

/** What each of them counts, over the duration of the requests unless it says otherwise. */
export const ownFamilies: Record<string, string> = {
  breakdown_requests: 'requests that were assembled from their spans',
  breakdown_self: 'microseconds of exclusive time, by part',
  breakdown_critical: 'microseconds on the critical path, by part',
  breakdown_calls: 'calls, by part',
  breakdown_with: 'requests that called a part at all',
  breakdown_repeats: 'requests that called a part ten times or more',
  breakdown_fanout: 'calls that went to several instances at once, by instance',
  breakdown_last: 'calls that were the last of several to end, by instance',
  span_self_seconds: 'exclusive time of a request, by component',
  clock_skew_seconds: 'by how much the clocks of two services disagree',
};

/** What a distribution counts, as people say it: spans are requests, any other measured value is an observation. */
export const counted = (family: string): 'requests' | 'observations' => (family.startsWith('span_') ? 'requests' : 'observations');
