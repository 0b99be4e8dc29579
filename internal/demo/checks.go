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

// writeChecks makes the file of checks of a shop at an address in a directory, and returns
// its name.
func writeChecks(dir, shop, tenant string) (string, error) {
	text := strings.NewReplacer("EVENTS", filepath.Join(dir, "events.log"), "SHOP", shop, "TENANT", tenant).Replace(checksFile)
	name := filepath.Join(dir, "checks.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the file of checks: %w", err)
	}
	return name, nil
}

// guard has the server read the checks of a shop at an address.
func (d *demo) guard(shop string) error {
	name, err := writeChecks(d.dir, shop, d.tenants[0].name)
	if err != nil {
		return err
	}
	d.Server.Checks = append(d.Server.Checks[:len(d.Server.Checks):len(d.Server.Checks)], name)
	return nil
}
