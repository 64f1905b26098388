// Package conformance is the suite that every integration passes, in process
// and over a link: it checks the rules of the executor contract on a running
// agent.
//
// The suite sees an integration through [exec.Runtime] alone. What differs
// between agents is how to make one do something, and that is a [Subject].
package conformance

import (
	"context"
	"testing"
	"time"

	"garcon/proto/exec"
)

const (
	// waitLimit bounds the wait for anything the agent is to do. Starting
	// many agents at once takes over 15 s on a small machine.
	waitLimit = 60 * time.Second
	// endGrace is how long after the end of a conversation its processes may
	// be there: the adapters' own grace and a second.
	endGrace = 10 * time.Second
	// quiet is how long a stream that must stay silent is watched.
	quiet = 200 * time.Millisecond
)

// Subject is an integration on a runtime, with the prompts that make its agent
// do things. A prompt may be empty only when the manifest says that the agent
// cannot do it; the suite fails otherwise.
type Subject struct {
	// Runtime is ready. The suite closes it at most once; the maker's cleanup
	// must close it too.
	Runtime       exec.Runtime
	IntegrationID string
	// ProjectPath is an empty directory that the agent may write in. The suite
	// looks at it directly, so the executor is on this machine.
	ProjectPath string
	// Restart closes Runtime and returns another on the same state, as a new
	// process of the executor would be.
	Restart func(t testing.TB) exec.Runtime
	// Configure changes launches before they are made, such as by setting
	// model and endpoint; it may be nil.
	Configure func(*exec.Launch)

	// Say is answered by a text that contains Reply.
	Say, Reply string
	// Shell returns a prompt that makes the agent run a shell command in the
	// foreground, after asking in the default mode; nil when the agent runs
	// none.
	Shell func(command string) string
	// Ask makes the agent ask the user a question with options; empty when
	// the agent cannot.
	Ask string
	// Hang makes the agent work until it is stopped. It must have published a
	// row or a live part of the run when it hangs.
	Hang string
	// Steer is text that, sent while it hangs, has the agent finish with a
	// text that contains SteerReply.
	Steer, SteerReply string
	// Fail ends in an error with the code FailCode.
	Fail     string
	FailCode exec.Code
	// Crash makes the native process of the agent die during the turn; empty
	// when the agent has none.
	Crash string
	// Kill kills the native process of the agent, which is at work; nil when
	// the agent has none.
	Kill func(t testing.TB)
	// Background starts work that outlives the turn and then ends by itself,
	// whereupon the agent begins a run; empty when the agent does no such
	// thing.
	Background string
	// Recall is answered by a text that contains the last line of the first
	// prompt of the conversation.
	Recall string
	// Flood is answered with at least FloodBytes bytes of text, 48 MiB or
	// more, in rows of about 1 MiB; empty when the agent never says so much at
	// once. The memory of the whole process is watched meanwhile.
	Flood      string
	FloodBytes int
	// Burst is answered with at least BurstRows rows.
	Burst     string
	BurstRows int
}

// Run runs the suite. The maker is called for every scenario.
func Run(t *testing.T, maker func(t testing.TB) Subject) {
	for _, sc := range []struct {
		name  string
		facet string
		test  func(t *testing.T, s Subject)
	}{
		{"manifest", exec.FacetExecution, testManifest},
		{"catalog", exec.FacetCatalog, testCatalog},
		{"auth", exec.FacetAuth, testAuth},
		{"turn", exec.FacetExecution, testTurn},
		{"resume", exec.FacetExecution, testResume},
		{"memory", exec.FacetExecution, testMemory},
		{"succession", exec.FacetExecution, testSuccession},
		{"prompt like flags", exec.FacetExecution, testPromptLikeFlags},
		{"attachments", exec.FacetExecution, testAttachments},
		{"concurrent chats", exec.FacetExecution, testConcurrent},
		{"slow controller", exec.FacetExecution, testSlowController},
		{"flood", exec.FacetExecution, testFlood},
		{"refused launches", exec.FacetExecution, testRefusedLaunches},
		{"failure", exec.FacetExecution, testFailure},
		{"abort", exec.FacetExecution, testAbort},
		{"abort in a tool", exec.FacetExecution, testAbortInTool},
		{"launch given up", exec.FacetExecution, testGiveUpLaunch},
		{"ids of runs", exec.FacetExecution, testRunID},
		{"resume race", exec.FacetExecution, testResumeRace},
		{"busy session", exec.FacetExecution, testBusySession},
		{"stale references", exec.FacetExecution, testStaleReferences},
		{"close binding", exec.FacetExecution, testCloseBinding},
		{"close binding at launch", exec.FacetExecution, testCloseAtLaunch},
		{"close runtime", exec.FacetExecution, testCloseRuntime},
		{"restart", exec.FacetExecution, testRestart},
		{"crash", exec.FacetExecution, testCrash},
		{"killed", exec.FacetExecution, testKilled},
		{"environment", exec.FacetExecution, testEnvironment},
		{"descendants", exec.FacetExecution, testDescendants},
		{"permission", exec.FacetPermissions, testPermission},
		{"permission refused", exec.FacetPermissions, testPermissionRefused},
		{"permission race", exec.FacetPermissions, testPermissionRace},
		{"permission withdrawn", exec.FacetPermissions, testPermissionWithdrawn},
		{"close while asking", exec.FacetPermissions, testCloseWhileAsking},
		{"bypass mode", exec.FacetPermissions, testBypass},
		{"question", exec.FacetPermissions, testQuestion},
		{"steering", exec.FacetSteering, testSteering},
		{"compaction", exec.FacetCompaction, testCompaction},
		{"history", exec.FacetHistory, testHistory},
		{"same history", exec.FacetHistory, testSameHistory},
		{"mentioned files", exec.FacetHistory, testMentions},
		{"background", exec.FacetExecution, testBackground},
		{"fork", exec.FacetForking, testFork},
		{"commands", exec.FacetCommands, testCommands},
		{"single query", exec.FacetSingleQuery, testSingleQuery},
	} {
		t.Run(sc.name, func(t *testing.T) {
			s := maker(t)
			in := s.integration(t)
			if !has(in, sc.facet) {
				t.Skipf("%s has no %s", s.IntegrationID, sc.facet)
			}
			sc.test(t, s)
		})
	}
}

func (s Subject) integration(t testing.TB) *exec.Integration {
	t.Helper()
	in, err := s.Runtime.Integration(t.Context(), s.IntegrationID)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// facets says which facets there are.
func facets(in *exec.Integration) map[string]bool {
	return map[string]bool{
		exec.FacetCatalog: in.Catalog != nil, exec.FacetAuth: in.Auth != nil,
		exec.FacetExecution: in.Execution != nil, exec.FacetPermissions: in.Permissions != nil,
		exec.FacetSteering: in.Steering != nil, exec.FacetCompaction: in.Compaction != nil,
		exec.FacetForking: in.Forking != nil, exec.FacetHistory: in.History != nil,
		exec.FacetCommands: in.Commands != nil, exec.FacetSingleQuery: in.SingleQuery != nil,
	}
}

func has(in *exec.Integration, facet string) bool { return facets(in)[facet] }

// native reports whether the agent keeps the conversation itself.
func native(in *exec.Integration) bool {
	return in.Manifest.Conversation == exec.ConversationNative
}

// wantCode fails unless err has the code.
func wantCode(t testing.TB, err error, want exec.Code) *exec.Error {
	t.Helper()
	if got := exec.CodeOf(err); got != want {
		t.Fatalf("error code %q, want %q (%v)", got, want, err)
	}
	return exec.AsError(err)
}

// wantRefused fails unless err has the code and says that nothing happened.
func wantRefused(t testing.TB, err error, want exec.Code) {
	t.Helper()
	if e := wantCode(t, err, want); e.Dispatched != exec.NotDispatched {
		t.Fatalf("%s is dispatched %q, want %q", want, e.Dispatched, exec.NotDispatched)
	}
}

// limited returns a context for one call.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}
