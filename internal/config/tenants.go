package config

// Tenants says who is large, in place of shares of requests.
type Tenants struct {
	List                     string // file of tenants with their sizes or cohorts; empty is none
	VeryLarge, Large, Medium int    // sizes from which a tenant is of that cohort; all 0 goes by the share of all sizes
}

func (t *Tenants) validate(bad func(key, format string, args ...any)) {
	if t.VeryLarge == 0 && t.Large == 0 && t.Medium == 0 {
		return
	}
	if t.List == "" {
		bad("tenants.list", "sizes of cohorts are given, but no list of tenants has any: name its file")
	}
	if t.Medium < 1 || t.Large <= t.Medium || t.VeryLarge <= t.Large {
		bad("tenants.very_large", "sizes from which tenants are very large, large and medium are %d, %d and %d: give all three, falling and above 0, or none", t.VeryLarge, t.Large, t.Medium)
	}
}
