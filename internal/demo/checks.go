package demo

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed checks.yaml
var checksFile string

// writeChecks makes the file of checks of a shop at an address, and has the
// server read it.
func (d *demo) writeChecks(shop string) error {
	text := strings.NewReplacer("EVENTS", filepath.Join(d.dir, "events.log"), "SHOP", shop, "TENANT", d.tenants[0].name).Replace(checksFile)
	name := filepath.Join(d.dir, "checks.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the file of checks: %w", err)
	}
	d.Server.Checks = append(d.Server.Checks[:len(d.Server.Checks):len(d.Server.Checks)], name)
	return nil
}
