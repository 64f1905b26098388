package demo

import (
	"strings"
	"testing"
)

// TestTour checks that every line of the tour is understood.
func TestTour(t *testing.T) {
	lines := strings.Count(tourPrompt, "\n") + 1
	if got := len(testAgent().steps(tourPrompt)); got != lines {
		t.Errorf("%d of %d lines of the tour are understood", got, lines)
	}
}

func TestTitle(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"short":                     "short",
		"first\n last \n":           "last",
		strings.Repeat("word ", 20): strings.TrimSpace(strings.Repeat("word ", 11)) + "…",
		strings.Repeat("ü", 60):     strings.Repeat("ü", 28) + "…",
	} {
		if got := title(in); got != want || len(got) > maxTitle {
			t.Errorf("title of %q is %q, want %q", in, got, want)
		}
	}
}
