package api

// AccessLogImport answers
// POST /api/v1/import/access-log?service&format&tenant&route&version&variant&since&again,
// whose body is the lines of one log, of any length: what came of them.
// Lines = Accepted + the sum of Refused.
type AccessLogImport struct {
	Service  string            `json:"service"`
	Format   string            `json:"format"` // what the lines were read as
	Lines    uint64            `json:"lines"`
	Accepted uint64            `json:"accepted"`
	Untimed  uint64            `json:"untimed"`          // of the accepted: without a duration, only counted and their sizes
	Notice   string            `json:"notice,omitempty"` // what the log lacks, and what to configure
	Refused  map[string]uint64 `json:"refused"`          // by reason: other_format, no_duration, too_old, …
	// ResumedAt is where in the file the reading began: 0, or what an earlier
	// import of the same file had come to. Bytes is what it has come to now.
	ResumedAt   int64              `json:"resumed_at"`
	Bytes       int64              `json:"bytes"`
	Followed    int64              `json:"followed"` // bytes passed over, because the server read them itself as they were written
	Start       Float              `json:"start"`    // of the accepted requests' ends
	End         Float              `json:"end"`
	Routes      []AccessLogShare   `json:"routes"` // the first 50, by falling number
	RouteCount  int                `json:"route_count"`
	Tenants     []AccessLogShare   `json:"tenants"`
	TenantCount int                `json:"tenant_count"`
	Problems    []AccessLogProblem `json:"problems"` // the first few lines not used
}

type AccessLogShare struct {
	Name     string `json:"name"`
	Requests uint64 `json:"requests"`
}

type AccessLogProblem struct {
	Line    uint64 `json:"line"`   // from 1
	Column  int    `json:"column"` // from 1, in bytes
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Text    string `json:"text"`
}
