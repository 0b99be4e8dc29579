package api

// warnEnvironments returns the warning that several environments are taken together.
func warnEnvironments(text string) CompareWarning {
	return CompareWarning{Code: "environments", Text: text}
}

// Warn adds a warning that environments are taken together.
func (r *CompareResponse) Warn(text string) { r.Warnings = append(r.Warnings, warnEnvironments(text)) }

// Covers returns the time from the beginning of the earlier side to the end of the later.
func (r *CompareResponse) Covers() Range {
	out := Range{Start: min(r.A.Start, r.B.Start), End: max(r.A.End, r.B.End)}
	for _, day := range r.A.Days {
		out.Start, out.End = min(out.Start, day.Start), max(out.End, day.End)
	}
	return out
}

// Warn adds a warning that environments are taken together.
func (r *ScalingResponse) Warn(text string) { r.Warnings = append(r.Warnings, warnEnvironments(text)) }
