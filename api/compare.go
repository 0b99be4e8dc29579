package api

// CompareResponse answers GET /api/v1/compare: two sides of a selection of
// requests, what differs between them, and how surely. Side A is the one that
// B is measured against.
type CompareResponse struct {
	Family string      `json:"family"`
	Of     string      `json:"of"` // what is compared, in words
	A      CompareSide `json:"a"`
	B      CompareSide `json:"b"`
	Mark   *Mark       `json:"mark,omitempty"` // that the sides are before and after
	// Together, Outage and Then are of a mark, as those of ServiceVerdict.
	Together []MarkName  `json:"together,omitempty"`
	Outage   *MarkOutage `json:"outage,omitempty"`
	Then     *MarkThen   `json:"then,omitempty"`
	Label    string      `json:"label,omitempty"` // that tells the sides apart
	// Paired says that slots of the same time, or of the same time of another
	// day, were set against each other.
	Paired bool  `json:"paired"`
	Slot   int64 `json:"slot"`                   // seconds
	Level  Float `json:"level" nullable:"false"` // confidence of the intervals, 0..1
	Within Float `json:"within" nullable:"false"`
	// Verdict of all measures together, with the false discovery rate
	// controlled: regression, improvement, mixed, same, drifts, no evidence, too
	// little data; or changed, of what nobody knows whether more is better.
	Verdict  Verdict          `json:"verdict"`
	Sentence string           `json:"sentence"`
	Measures []CompareMeasure `json:"measures"`
	// Covered is the lesser of the shares of the two sides' requests that could
	// be compared like for like, in so many Strata, told apart by these labels.
	Covered  Float    `json:"covered"`
	Strata   int      `json:"strata"`
	StrataBy []string `json:"strata_by"`
	// Operations and Tenants, the most changed first; their probabilities are
	// adjusted for how many were looked at.
	Operations []CompareRow `json:"operations"`
	Tenants    []CompareRow `json:"tenants"`
	Cohorts    []CompareRow `json:"cohorts,omitempty"` // if they were asked for
	// Light are the tenants with too few requests to be judged each, together; absent where
	// there are none, or too few together. It does not count in the verdict.
	Light    *CompareLight    `json:"light,omitempty"`
	Warnings []CompareWarning `json:"warnings"`
	// Shapes are what came and went at a mark, which belongs to neither side; a spike of
	// either of two windows; and how a change that lasts moved.
	Shapes []Shape `json:"shapes"`
	// Hints are spikes of single operations at a mark that this mark alone does not surely
	// show: marks of one name are judged together by them.
	Hints []Shape `json:"hints,omitempty"`
	// Unit is seconds, bytes or empty; Per is request when the figures of a
	// family of numbers are for each request of the service.
	Unit string `json:"unit"`
	Per  string `json:"per,omitempty"`
	// Provisional says that slots of one second were judged, for gross changes alone, while
	// there are too few of ten seconds after the moment.
	Provisional bool `json:"provisional,omitempty"`
	// Live says that the intervals hold at every look, not only at the last.
	Live bool `json:"live"`
	// Whole is the test of the whole distributions; absent for numbers, and of
	// what is live: a permutation test is good for one look.
	Whole *CompareWhole `json:"whole,omitempty"`
	// Curve and Heat are given when include names them.
	Curve *CompareCurve `json:"curve,omitempty"`
	Heat  *CompareHeat  `json:"heat,omitempty"`
}

// CompareLight is a row of several tenants, the probabilities of its measures adjusted for
// how many they are.
type CompareLight struct {
	CompareRow
	Sentence string `json:"sentence"`
}

// CompareWhole says whether the two distributions are the same, by permuting
// blocks of slots; like for like where that was possible.
type CompareWhole struct {
	Test      string  `json:"test"` // energy
	P         Float   `json:"p"`
	Resamples int     `json:"resamples"`
	Block     int     `json:"block"`   // slots a block
	Verdict   Verdict `json:"verdict"` // different, no evidence, too little data
	Sentence  string  `json:"sentence"`
}

// CompareCurve draws both distributions. Shares are of requests up to and
// including Values; the ratio B/A of quantiles has a band that holds at all of
// Ps at once, and at every look if it is live. Ends of the band are null where
// they are not known, both where there is too little data. Like for like where
// that was possible.
type CompareCurve struct {
	LikeForLike bool    `json:"like_for_like"`
	Values      []Float `json:"values"` // ascending, bucket bounds
	A           []Float `json:"a"`      // shares
	B           []Float `json:"b"`
	Ps          []Float `json:"ps"`
	QuantilesA  []Float `json:"quantiles_a"`
	QuantilesB  []Float `json:"quantiles_b"`
	Ratio       []Float `json:"ratio"`
	Low         []Float `json:"low"`
	High        []Float `json:"high"`
}

// CompareHeat is where requests went: per column and row the share of the
// column's requests less what side A leads one to expect there: A's column of
// the same time if the sides are paired, else all of side A. The columns of side
// A show how much it differs from itself: from all of it, or if the sides are
// paired from the mean of the columns before and after. Shares are of all
// requests, not like for like.
type CompareHeat struct {
	Expected string              `json:"expected" enum:"slot,side"`
	Step     int64               `json:"step"`
	Bounds   []Float             `json:"bounds"` // rows as in HeatmapResponse
	Columns  []CompareHeatColumn `json:"columns"`
	Max      Float               `json:"max"` // greatest absolute difference
}

// CompareHeatColumn is one step of a side. Rows and Differences run in
// parallel, rows ascending, sparse.
type CompareHeatColumn struct {
	Side        string  `json:"side" enum:"a,b"`
	Start       int64   `json:"start"`
	Requests    uint64  `json:"requests"`
	Rows        []int   `json:"rows"`
	Differences []Float `json:"differences"`
}

// CompareSide is one side, as far as it was used. Requests are observations or
// samples where a family is not of spans.
type CompareSide struct {
	Range
	Name      string `json:"name"`
	Slots     int    `json:"slots"` // with requests
	Requests  uint64 `json:"requests"`
	Effective uint64 `json:"effective,omitempty"` // see DistributionGroup
	Errors    uint64 `json:"errors"`
	Rate      Float  `json:"rate"` // per second, from when the data begin if that is within the side
	// Days are the earlier days whose slots make the side, the last one first;
	// the range is then that of the last. Absent for a side of one day.
	Days []Range `json:"days,omitempty"`
	// Windows are those that make a side of several, such as nights, the first one first;
	// the range then reaches from the first to the last. Absent for a side of one window.
	Windows []Range `json:"windows,omitempty"`
}

// CompareMeasure is one figure of both sides. Name is p50 to p99.9, mean,
// errors (their share of requests), apdex, rate (of a metric: a counter's
// increase, or observations, per second) or per_request; Scale says whether the sides are
// set against each other by their ratio or their difference.
type CompareMeasure struct {
	Name  string        `json:"name"`
	Scale string        `json:"scale" enum:"ratio,difference"`
	Raw   CompareFigure `json:"raw"`
	// Like is the like-for-like figure: strata in the same shares on both sides.
	// Absent if no stratum is on both.
	Like *CompareFigure `json:"like_for_like,omitempty"`
	// Verdict is that of the like-for-like figure, of the raw one if there is
	// none. Change says which way it went: better, worse, or empty.
	Verdict  Verdict `json:"verdict"`
	Change   Way     `json:"change,omitempty"`
	Adjusted Float   `json:"adjusted_p"` // probability, adjusted for the number of measures
	Sentence string  `json:"sentence"`
	// Allowed says which change was allowed, if the verdict is of what lies beyond one.
	Allowed string `json:"allowed,omitempty"`
	// Between says of a quantile that it lies between two bumps of the distribution, on
	// either side: its ratio then says nothing, and the verdict, with its probability, is of
	// the share of what lies in the upper bump.
	Between *CompareBumps `json:"between,omitempty"`
}

// CompareBumps are two bumps of a distribution.
type CompareBumps struct {
	Lower Float `json:"lower"` // where each is highest, in the unit of the figure
	Upper Float `json:"upper"`
	// A and B are the shares of the observations of a side in the upper bump, and Low and
	// High bound B−A.
	A    Float `json:"a"`
	B    Float `json:"b"`
	Low  Float `json:"low"`
	High Float `json:"high"`
}

// Judged returns the figure that the verdict is of: the like-for-like one if there is
// one, else the raw one. It is m's own.
func (m *CompareMeasure) Judged() *CompareFigure {
	if m.Like != nil {
		return m.Like
	}
	return &m.Raw
}

// CompareFigure is a figure of side A and of side B.
type CompareFigure struct {
	A Float `json:"a"`
	B Float `json:"b"`
	// Effect is B/A, or B−A if the scale is difference, with its interval; null
	// ends are unbounded.
	Effect  Float   `json:"effect"`
	Low     Float   `json:"low"`
	High    Float   `json:"high"`
	P       Float   `json:"p"`
	Verdict Verdict `json:"verdict"`
	// Error bounds the relative error of A and B that comes from buckets. It is
	// not part of the interval.
	Error Float `json:"error"`
	// Short says what was too little for an interval.
	Short string `json:"short,omitempty"`
	// ByLoad says of a figure that drifts that the number of requests explains it.
	ByLoad bool `json:"by_load,omitempty"`
	// Needed is how many times the data of both sides a change of the margin
	// needs to be found in nine of ten cases, and NeededSeconds how long sides of one
	// length then are, each; null if that is not known.
	Needed        Float `json:"needed"`
	NeededSeconds Float `json:"needed_seconds"`
	// NeededWindows counts the windows that each side then has; only of sides of several.
	NeededWindows int `json:"needed_windows,omitempty"`
	// JudgedAt is when side B, whose newest slots are still coming, will hold enough for an
	// interval, in Unix seconds; of a figure that is short of that alone.
	JudgedAt int64 `json:"judged_at,omitempty"`
}

// CompareRow is one operation or tenant. Of a metric, Operation is the labels
// of a series: gc=young.
type CompareRow struct {
	Service   string `json:"service,omitempty"`
	Operation string `json:"operation,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Cohort    string `json:"cohort,omitempty"` // of a row of cohorts, and of tenants beside those
	// Tenants is the number of tenants of a cohort with requests on both sides; absent where
	// some of them are not told apart. TenantsJudged is how many of them were judged by
	// themselves, at a mark. Alone is the one that makes more than half of how much more, or
	// less, time its requests take, or of how many more, or fewer, failed.
	Tenants       int    `json:"tenants,omitempty"`
	TenantsJudged int    `json:"tenants_judged,omitempty"`
	Alone         string `json:"alone,omitempty"`
	RequestsA     uint64 `json:"requests_a"`
	RequestsB     uint64 `json:"requests_b"`
	EffectiveA    uint64 `json:"effective_a,omitempty"` // see DistributionGroup
	EffectiveB    uint64 `json:"effective_b,omitempty"`
	// MeanA and MeanB are of all observations of a side: with how many there are
	// they say how much time a row takes more or less.
	MeanA    Float            `json:"mean_a"`
	MeanB    Float            `json:"mean_b"`
	Measures []CompareMeasure `json:"measures"` // p50, p95, p99; an operation's tenants and a tenant's operations like for like
	// Adjusted is the least adjusted probability among them, over all measures
	// of all rows of the list; Changed says that it is small enough.
	Adjusted Float `json:"adjusted_p"`
	Changed  bool  `json:"changed"`
}

// CompareWarning is a reason to doubt. Code is mix, coverage, errors,
// saturation, instrumentation, season, days, series, load, marks, provisional or spike.
type CompareWarning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}
