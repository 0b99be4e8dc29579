package api

// Instead says which name in match nobody ever sent, and what may be meant in its place.
type Instead struct {
	Label   string   `json:"label"`
	Name    string   `json:"name"`    // that was asked for
	Nearest []string `json:"nearest"` // what it may be a slip of, the likeliest first; empty if nothing is like it
	Message string   `json:"message"` // one sentence, with what there is
}

// Misnamed holds, in an empty answer, the name that is why it is empty.
type Misnamed struct {
	Instead *Instead `json:"instead,omitempty"`
}

// Suggest sets what may be meant.
func (m *Misnamed) Suggest(i *Instead) { m.Instead = i }

// Suggestion returns what may be meant, nil if the names were sent.
func (m *Misnamed) Suggestion() *Instead { return m.Instead }

// Each of these answers may be empty because nobody sent a name in match.

func (r *ServicesResponse) Empty() bool     { return len(r.Services) == 0 }
func (r *DistributionResponse) Empty() bool { return len(r.Groups) == 0 }
func (r *HeatmapResponse) Empty() bool      { return r.Count == 0 }
func (r *TimelineResponse) Empty() bool     { return len(r.Groups) == 0 }
func (r *BreakdownResponse) Empty() bool    { return r.Total == 0 && len(r.Components) == 0 }
func (r *OperationsResponse) Empty() bool   { return r.Total == 0 }
func (r *TenantsResponse) Empty() bool      { return r.Everyone.Requests == 0 }
func (r *TracesResponse) Empty() bool       { return len(r.Traces) == 0 }
func (r *ExplainResponse) Empty() bool      { return r.Inside+r.Outside == 0 }
func (r *ScalingResponse) Empty() bool      { return len(r.Points) == 0 }
func (r *ApdexResponse) Empty() bool        { return len(r.Rows) == 0 }
func (r *SLAResponse) Empty() bool          { return r.All.Requests == 0 }
func (r *ChangesResponse) Empty() bool      { return r.Searched == 0 }
