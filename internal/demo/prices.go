package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// A price list is what a tenant buys at. Nothing that shoppers ask for reads it.

// putPrices replaces the price list of a tenant. The list is read while the write lock is
// held, so that whoever writes waits for as long as that takes.
func (s *shop) putPrices(w http.ResponseWriter, r *http.Request, t *tenant) error {
	list, err := io.ReadAll(r.Body)
	if err != nil || !json.Valid(list) {
		return refusal{http.StatusBadRequest, "write the price list as JSON"}
	}
	_, err = s.db.ExecContext(r.Context(),
		`INSERT INTO prices (tenant, product, about, price_cents)
		 SELECT ?1, value ->> 'product', value ->> 'about', value ->> 'price_cents' FROM json_each(?2) WHERE true
		 ON CONFLICT DO UPDATE SET about = excluded.about, price_cents = excluded.price_cents`, t.id, string(list))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, struct{}{})
}

// importer is the tenant whose price list is imported: one of the larger ones.
func (d *demo) importer() *tenant { return &d.tenants[4] }

// priceLines is the length of the list.
const priceLines = 4000

// priceList is a list of a tenant, as JSON.
func priceList(t *tenant, lines int) ([]byte, error) {
	type line struct {
		Product int    `json:"product"`
		About   string `json:"about"`
		Price   int    `json:"price_cents"`
	}
	list := make([]line, lines)
	for i := range list {
		list[i] = line{productID(t, i), strings.Repeat(adjectives[i%len(adjectives)]+" "+nouns[i%len(nouns)]+", ", 10), 100 + i}
	}
	return json.Marshal(list)
}

// importPrices has a tenant send its price list for a while. Between two it rests as long as
// one took.
func (d *demo) importPrices(ctx context.Context) error {
	t := d.importer()
	list, err := priceList(t, priceLines)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	over := time.After(importFor)
	for {
		begin := time.Now()
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+d.door.Addr().String()+"/prices", bytes.NewReader(list))
		if err != nil {
			return err
		}
		r.Header.Set(tenantHeader, t.name)
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("import the prices of %s: %s", t.name, resp.Status)
		}
		select {
		case <-time.After(time.Since(begin)):
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
