package config

// Tenants configures the cohorts of tenants by a list, in place of their shares of
// requests.
type Tenants struct {
	List      string `key:"list" flag:"yes" doc:"File of tenants with their sizes or cohorts, CSV or JSON: it makes the cohorts, in place of shares of requests. Read at the start; see docs/tenants.md."`
	VeryLarge int    `key:"very_large" doc:"Size on the list from which a tenant is very large; 0 in all three goes by the share of all sizes together, 5 %, 1 % and 0.1 %."`
	Large     int    `key:"large" doc:"Size on the list from which a tenant is large."`
	Medium    int    `key:"medium" doc:"Size on the list from which a tenant is medium."`
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
