package row

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAbridgeKeepsTheShapeAndBoundsTheSize(t *testing.T) {
	const budget = 8 << 10
	long := strings.Repeat("ä", 100<<10)
	for name, body := range map[string]Body{
		"assistant": &Assistant{Text: long},
		"user":      &User{Text: long, ClientID: "c"},
		"notice":    &Notice{Code: "C", Title: long, Text: long},
		"unknown":   &Opaque{Type: "future", Members: json.RawMessage(`{"kind":"future","text":"` + long + `"}`)},
	} {
		r := New("turn", "run", body)
		r.Ordinal = 7
		encoded, err := r.Abridge(budget).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(encoded) > 2*budget {
			t.Errorf("%s: %d bytes", name, len(encoded))
		}
		back, err := Decode(encoded)
		if err != nil || back.Ordinal != 7 || back.TurnID != "turn" || back.Kind() != body.Kind() {
			t.Errorf("%s: came back as %+v, %v", name, back.Head, err)
		}
	}
}
