package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"garcon/proto/api"
	"garcon/store/runtimefile"
)

// Call makes a request of the interface. It may be called from any goroutine.
// A refusal is an [*api.Error]; out may be nil.
func (r *Role) Call(ctx context.Context, op api.OperationID, path []string, query url.Values, body, out any) error {
	o := api.Lookup(op)
	target := o.Path
	for _, value := range path {
		from, to := strings.IndexByte(target, '{'), strings.IndexByte(target, '}')
		target = target[:from] + url.PathEscape(value) + target[to+1:]
	}
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, o.Method, r.Descriptor.URL+api.Base+target+"?"+query.Encode(), in)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+runtimefile.Bearer(r.Descriptor.Capability))
	req.Header.Set(api.HeaderInstance, r.Descriptor.InstanceID)
	req.Header.Set(api.HeaderOrigin, "cli")
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	data, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode != http.StatusOK {
		var envelope api.Envelope
		if err := json.Unmarshal(data, &envelope); err != nil || envelope.Error == nil {
			return fmt.Errorf("%s: %s: %s", op, reply.Status, data)
		}
		envelope.Error.Status = reply.StatusCode
		return envelope.Error
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}
