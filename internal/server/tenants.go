package server

import (
	"fmt"

	"tailscope/internal/series"
)

// tenantList reads the list of tenants, or returns nil if none is configured.
func (s *Server) tenantList() (*series.TenantList, error) {
	c := s.cfg.Tenants
	if c.List == "" {
		return nil, nil
	}
	l, err := series.ReadTenantList(c.List, series.CohortSizes{VeryLarge: float64(c.VeryLarge), Large: float64(c.Large), Medium: float64(c.Medium)})
	if err != nil {
		return nil, fmt.Errorf("tenants.list: %w", err)
	}
	s.log.Info("cohorts of tenants come from the list", "file", c.List, "tenants", l.Len())
	return l, nil
}
