package claude

import (
	"slices"

	"garcon/proto/exec"
	"garcon/provider"
)

const label = "Claude Code"

// The permission modes.
const (
	modeDefault     = "default"
	modeAcceptEdits = "acceptEdits"
	modePlan        = "plan"
	modeAuto        = "auto"
	modeDontAsk     = "dontAsk"
	modeBypass      = "bypassPermissions"
)

func modes() []exec.Mode {
	return []exec.Mode{
		{ID: modeDefault, Label: "Ask", Description: "Reads inside the project and harmless commands run unasked; anything that changes something is asked for."},
		{ID: modeAcceptEdits, Label: "Accept edits", Description: "Files in the project are changed unasked; other commands are asked for."},
		{ID: modePlan, Label: "Plan", Description: "Reads and plans only; the plan is offered for approval before anything is changed."},
		{ID: modeAuto, Label: "Auto", Description: "A classifier of the provider decides what runs unasked. It needs an account that has it."},
		{ID: modeDontAsk, Label: "Never ask", Description: "What would be asked for is refused."},
		{ID: modeBypass, Label: "Bypass permissions", Description: "Everything runs unasked, whatever it does. For sandboxes only.", Bypass: true},
	}
}

// efforts are the reasoning efforts, least first.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// Manifest implements [provider.Adapter].
func (a *adapter) Manifest() exec.Manifest {
	return exec.Manifest{
		ID: ID, Label: label, Conversation: exec.ConversationNative,
		Modes: modes(), DefaultMode: modeDefault, Efforts: slices.Clone(efforts),
		Attachments: exec.Attachments{
			MediaTypes: append(slices.Clone(imageTypes), mediaPDF, mediaText),
			MaxCount:   maxAttachments, MaxBytes: maxAttachment,
		},
	}
}

// plan checks a launch and says what its process must be like.
func (a *adapter) plan(l exec.Launch) (spec, error) {
	if l.Endpoint != nil {
		return spec{}, exec.Errorf(exec.CodeUnsupported, "Claude Code uses the account of the executor and takes no endpoint")
	}
	if l.Mode != "" && !slices.ContainsFunc(modes(), func(m exec.Mode) bool { return m.ID == l.Mode }) {
		return spec{}, exec.Errorf(exec.CodeInvalid, "Claude Code has no permission mode %q", l.Mode)
	}
	if l.Effort != "" && !slices.Contains(efforts, l.Effort) {
		return spec{}, exec.Errorf(exec.CodeInvalid, "Claude Code has no reasoning effort %q", l.Effort)
	}
	if l.Mode == modeBypass && isRoot() && provider.Getenv(a.host.Env, envSandbox) != "1" {
		return spec{}, bypassAsRoot()
	}
	sp := spec{dir: l.ProjectPath, model: l.Model, mode: l.Mode, effort: l.Effort}
	if err := a.planSession(&sp, l.NativeSession); err != nil {
		return spec{}, err
	}
	return sp, nil
}

// args are the arguments that start a process for sp.
func (sp spec) args() []string {
	args := []string{
		"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--permission-prompt-tool", "stdio", "--replay-user-messages", "--include-partial-messages",
	}
	switch n := sp.native; {
	case n.fork != nil:
		// Ids go behind "=", so that one never looks like an option.
		args = append(args, "--resume="+n.fork.source, "--fork-session", "--session-id="+n.fork.id)
		if n.fork.at != "" {
			args = append(args, "--resume-session-at="+n.fork.at)
		}
	case n.session != "":
		args = append(args, "--resume="+n.session)
	default:
		args = append(args, "--session-id="+sp.session)
	}
	if sp.model != "" {
		args = append(args, "--model="+sp.model)
	}
	if sp.effort != "" {
		args = append(args, "--effort="+sp.effort)
	}
	if sp.mode != "" {
		args = append(args, "--permission-mode="+sp.mode)
	}
	return args
}
