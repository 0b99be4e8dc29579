package api

// TenantsResponse answers GET /api/v1/tenants?family&match&start&end&sort&search&cohort&slow&rare&offset&limit.
type TenantsResponse struct {
	Range
	Warned
	Misnamed
	Total   int      `json:"total"` // tenants that match the search, the cohort and the share of slow requests
	Tenants []Tenant `json:"tenants"`
	// Cohorts, the largest first, and Everyone: all requests, those of tenants
	// beyond the page included.
	Cohorts  []TenantCohort `json:"cohorts"`
	Everyone TenantCohort   `json:"everyone"`
	// Bands are the ends, in seconds, of the experience bands: instant, flow kept,
	// patience, lost; what lies beyond the last is the fifth.
	Bands []Float `json:"bands"`
	// Slow is from how many seconds a request is slow, and Rare the share of slow
	// requests up to which they are rare for a tenant.
	Slow Float `json:"slow"`
	Rare Float `json:"rare"`
	// CohortsBy says what cohorts are made of: share of requests, or list, the
	// sizes that the operator named.
	CohortsBy string `json:"cohorts_by" enum:"share of requests,list"`
}

// Tenant is one tenant's requests.
type Tenant struct {
	Name      string           `json:"name"`
	Requests  uint64           `json:"requests"`
	Effective uint64           `json:"effective,omitempty"` // see DistributionGroup
	Share     Float            `json:"share"`               // of all requests
	Errors    uint64           `json:"errors"`
	Mean      Float            `json:"mean"`
	Quantiles map[string]Float `json:"quantiles"`
	Error     Float            `json:"error"`
	Cohort    string           `json:"cohort,omitempty"`
	Size      Float            `json:"size"` // as the tenant list has it; null if it is not on it
	// InBands are the shares of the tenant's requests in each of the five bands.
	InBands []Float `json:"in_bands"`
	// SlowShare is the share of its requests that are slow, with its interval; and
	// NotRare says that the interval lies above Rare.
	SlowShare Float `json:"slow_share"`
	SlowLow   Float `json:"slow_low"`
	SlowHigh  Float `json:"slow_high"`
	NotRare   bool  `json:"not_rare"`
}

// TenantCohort is the requests of all tenants of a cohort.
type TenantCohort struct {
	Name      string           `json:"name"` // very large, large, medium, small; everyone
	Tenants   int              `json:"tenants"`
	Requests  uint64           `json:"requests"`
	Effective uint64           `json:"effective,omitempty"` // see DistributionGroup
	Share     Float            `json:"share"`
	Errors    uint64           `json:"errors"`
	Mean      Float            `json:"mean"`
	Quantiles map[string]Float `json:"quantiles"`
	Error     Float            `json:"error"`
	InBands   []Float          `json:"in_bands"`
	SlowShare Float            `json:"slow_share"`
	NotRare   int              `json:"not_rare"` // tenants for whom slow requests are not rare
}
