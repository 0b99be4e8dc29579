package config

import "fmt"

// AccessLog is one log that the server follows; see docs/access-logs.md.
type AccessLog struct {
	Path    string   `key:"path" doc:"A file, or a pattern of files."`
	Service string   `key:"service" doc:"Label service of its requests."`
	Format  string   `key:"format" doc:"As in nginx or Apache; default detected from the lines."`
	Tenant  string   `key:"tenant" doc:"Where the tenant stands: host, host:REGEX, path:REGEX or field:NAME."`
	Version string   `key:"version" doc:"Variable or field that is the version."`
	Variant string   `key:"variant" doc:"Variable or field that is the variant."`
	Routes  []string `key:"routes" is:"commas" doc:"REGEX=NAME names operations."`
	Whole   bool     `key:"start" is:"start" doc:"Where to begin at the first start: beginning, or end (default)."`
}

// accessLogsKey is the only key whose value is a list of mappings: only the file can set
// it.
const accessLogsKey = "access_logs"

// validateAccessLogs reports what each entry lacks. The start of the server checks
// formats, tenants and routes.
func (c *Config) validateAccessLogs(bad func(key, format string, args ...any)) {
	seen := map[string]int{}
	for i, l := range c.AccessLogs {
		key := fmt.Sprintf("%s[%d]", accessLogsKey, i)
		if l.Path == "" {
			bad(key+".path", "needs a file, such as /var/log/nginx/access.log")
		}
		if l.Service == "" {
			bad(key+".service", "needs a name, such as shop")
		}
		if first, ok := seen[l.Path]; ok && l.Path != "" {
			bad(key+".path", "%s is already followed by %s[%d]", l.Path, accessLogsKey, first)
		}
		seen[l.Path] = i
	}
}
