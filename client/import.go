package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"tailscope/api"
)

// ImportAccessLog sends the lines of an access log, as they are and of any
// length; params are those that api.AccessLogImport lists. It reads lines no
// faster than the server takes them. An error while it is under way leaves what
// was taken: the same log sent again goes on where it stopped.
func (c *Client) ImportAccessLog(ctx context.Context, params url.Values, lines io.Reader) (*api.AccessLogImport, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base()+"/api/v1/import/access-log?"+params.Encode(), lines)
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", c.base(), err)
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Expect", "100-continue") // a refusal comes before the lines are sent
	h := c.HTTP
	if h == nil {
		h = http.DefaultClient
	}
	res, err := h.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base(), err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", c.base(), err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, errorOf(res, b)
	}
	out := new(api.AccessLogImport)
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("%s does not answer like a tailscope server: %w", c.base(), err)
	}
	return out, nil
}
