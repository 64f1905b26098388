package direct

import (
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// maxTries is how often a request is made in all.
	maxTries = 3
	// firstWait is waited before the second try when the server does not say;
	// it doubles with every further one.
	firstWait = 500 * time.Millisecond
	// maxWait is the longest that a person is left waiting for a repetition.
	// What takes longer fails and says when to try again.
	maxWait = 60 * time.Second
	// waitJitter is the share by which waits differ, so that chats that failed
	// together do not come back together.
	waitJitter = 0.25
)

// backoff returns the wait before the try after the given one, counted from 1.
func backoff(try int) time.Duration {
	wait := float64(firstWait << (try - 1))
	return time.Duration(wait * (1 - waitJitter + 2*waitJitter*rand.Float64()))
}

// spread makes a wait the server asked for a little longer, never shorter.
func spread(wait time.Duration) time.Duration {
	return wait + time.Duration(rand.Float64()*float64(firstWait)/2)
}

// retryAfter reads how long the server asks to wait. ok is false when it does
// not say, or says nonsense.
func retryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return fromUnits(ms, time.Millisecond)
	}
	if v := strings.TrimSpace(h.Get("Retry-After")); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil {
			return fromUnits(s, time.Second)
		}
		if at, err := http.ParseTime(v); err == nil {
			return max(at.Sub(now), 0), true
		}
	}
	return rateLimitReset(h, now)
}

// rateLimitReset reads when the limits that are used up come back. Each
// vendor has its own headers.
func rateLimitReset(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	take := func(d time.Duration) {
		wait, ok = max(wait, d), true
	}
	for _, kind := range []string{"requests", "tokens"} {
		// OpenAI and Groq: durations such as "1s", "6m0s" or "120ms".
		if h.Get("X-Ratelimit-Remaining-"+kind) == "0" {
			if d, err := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + kind)); err == nil && d >= 0 {
				take(d)
			}
		}
		// Anthropic: a time.
		if h.Get("Anthropic-Ratelimit-"+kind+"-Remaining") == "0" {
			if at, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-"+kind+"-Reset")); err == nil {
				take(max(at.Sub(now), 0))
			}
		}
	}
	// OpenRouter: milliseconds of the epoch; others: seconds of it, or from now.
	if n, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil && n >= 0 {
		switch {
		case n > 1e12:
			take(max(time.UnixMilli(n).Sub(now), 0))
		case n > 1e9:
			take(max(time.Unix(n, 0).Sub(now), 0))
		default:
			take(time.Duration(n) * time.Second)
		}
	}
	return wait, ok
}

// waitInWords finds a wait in a message such as "Please try again in 11.054s",
// which is all that an error inside a stream has.
var waitInWords = regexp.MustCompile(`try again in (\d+(?:\.\d+)?)(ms|s)\b`)

func retryInWords(message string) (wait time.Duration, ok bool) {
	m := waitInWords.FindStringSubmatch(message)
	if m == nil {
		return 0, false
	}
	d, err := time.ParseDuration(m[1] + m[2])
	return d, err == nil
}

func fromUnits(n float64, unit time.Duration) (time.Duration, bool) {
	if math.IsNaN(n) || n < 0 {
		return 0, false
	}
	// A day more or less makes no difference, an overflow would.
	const most = 365 * 24 * time.Hour
	if n > float64(most/unit) {
		return most, true
	}
	return time.Duration(n * float64(unit)), true
}
