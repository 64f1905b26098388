package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garcon/e2e/model"
)

func TestParseIsStrict(t *testing.T) {
	for _, tt := range []struct{ name, script, err string }{
		{"good", `{"steps":[{"blocks":[{"text":"hi","chunks":3}],"stop":"end_turn"}]}`, ""},
		{"unknown member", `{"steps":[{"block":[]}]}`, "unknown field"},
		{"unknown member deep", `{"steps":[{"blocks":[{"txt":"hi"}]}]}`, "unknown field"},
		{"more behind", `{"steps":[]} {}`, "more after the script"},
		{"two kinds", `{"steps":[{"blocks":[{"text":"a","thinking":"b"}]}]}`, "step 1: block 1: it is of 2 kinds"},
		{"empty block", `{"steps":[{"name":"x","blocks":[{}]}]}`, "x: block 1: it is empty"},
		{"tool without name", `{"steps":[{"blocks":[{"tool":{"input":{}}}]}]}`, "no name"},
		{"reply and blocks", `{"steps":[{"reply":{"status":500},"blocks":[{"text":"a"}]}]}`, "a reply has no blocks"},
		{"unknown end", `{"steps":[{"end":"soon"}]}`, "unknown end"},
		{"error without fail", `{"steps":[{"end":"error"}]}`, "go together"},
		{"fail without error", `{"steps":[{"fail":{}}]}`, "go together"},
		{"unknown call", `{"steps":[{"match":{"call":"models"}}]}`, "cannot match"},
		{"unknown protocol", `{"steps":[{"match":{"protocol":"x"}}]}`, "unknown protocol"},
		{"unknown wire", `{"steps":[{"wire":{"usage":"often"}}]}`, "unknown wire usage"},
		{"negative", `{"steps":[{"times":-2}]}`, "times is -2"},
		{"bad default", `{"default":{"end":"x"}}`, "default: unknown end"},
		{"route without path", `{"routes":[{"reply":{}}]}`, "no path"},
		{"hold", `{"steps":[{"blocks":[{"text":"a","holdAfter":1}]}]}`, "holdAfter without hold"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := model.Parse(strings.NewReader(tt.script))
			switch {
			case tt.err == "" && err != nil:
				t.Error(err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, []byte(`{"models":["m1"],"default":{"blocks":[{"text":"hi"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := model.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Models) != 1 || s.Default == nil || s.Default.Blocks[0].Text != "hi" {
		t.Errorf("loaded %+v", s)
	}
	if _, err := model.Load(path + ".missing"); err == nil {
		t.Error("a missing file loaded")
	}
}
