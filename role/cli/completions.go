package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"garcon/proto/api"
	"garcon/store/runtimefile"
)

// completeTimeout bounds what a completion may ask of the server: the user is
// waiting with a finger on the key.
const completeTimeout = 2 * time.Second

// Completions prints the script that connects a shell to [Complete].
type Completions struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong's interface.
func (*Completions) Help() string {
	return `Examples:

    garcon completions bash > ~/.local/share/bash-completion/completions/garcon
    garcon completions zsh > "${fpath[1]}/_garcon"
    garcon completions fish > ~/.config/fish/completions/garcon.fish`
}

// Run prints the script.
func (c *Completions) Run(e *Env) error {
	return e.printf("%s", completionScripts[c.Shell])
}

// completionScripts ask this program for candidates, one a line: the word, and
// after a tab what it means. Without candidates the shell offers files.
var completionScripts = map[string]string{
	"bash": `# bash completion for garcon
_garcon() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <(garcon __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _garcon garcon
`,
	"zsh": `#compdef garcon
_garcon() {
    local line word
    local -a found
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        found+=("${word//:/\\:}:${line#*$'\t'}")
    done < <(garcon __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe garcon found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_garcon" ]; then
    _garcon "$@"
else
    compdef _garcon garcon
fi
`,
	"fish": `# fish completion for garcon
function __garcon_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (garcon __complete $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c garcon -f -a '(__garcon_complete)'
`,
}

// Complete prints the candidates for the last of the words.
type Complete struct {
	Words []string `arg:"" optional:""`
}

// Run prints the candidates. It fails silently: a message would end up in the
// user's command line.
func (c *Complete) Run(ctx context.Context, k *kong.Context, e *Env, g *Global) error {
	line := parseWords(k.Model.Node, c.Words)
	found := line.fixed()
	if line.ask != nil {
		ctx, cancel := context.WithTimeout(ctx, completeTimeout)
		defer cancel()
		found = append(found, line.dynamic(ctx, e, g)...)
	}
	for _, f := range found {
		if !strings.HasPrefix(f.word, line.prefix) {
			continue
		}
		if err := e.printf("%s\t%s\n", VisibleLine(f.word), VisibleLine(f.help)); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a word the user may mean.
type candidate struct{ word, help string }

// commandLine is a command line up to the word that is being completed.
type commandLine struct {
	node *kong.Node
	// prefix is what there is of the word.
	prefix string
	// value is the flag or argument the word is a value of, nil for none.
	value *kong.Value
	// flags says that the word is a flag, commands that it may be a command.
	flags, commands bool
	// ask returns candidates of the server, nil when it knows none.
	ask func(ctx context.Context, i *Invocation) []candidate
	// root and runtime are the flags that say which server.
	root, runtime string
}

// parseWords reads words, of which the last is being completed.
func parseWords(app *kong.Node, words []string) commandLine {
	line := commandLine{node: app}
	words = joinEquals(words)
	if len(words) == 0 {
		words = []string{""}
	}
	last := len(words) - 1
	line.prefix = words[last]
	positional, onlyArguments := 0, false
	for n := 0; n < last; n++ {
		w := words[n]
		switch {
		case onlyArguments:
			positional++
		case w == "--":
			onlyArguments = true
		case strings.HasPrefix(w, "-") && w != "-":
			name, _, given := strings.Cut(w, "=")
			flag := findFlag(line.node, name)
			if flag == nil || given || flag.IsBool() {
				continue
			}
			if n+1 == last {
				line.value = flag.Value
				line.ask = asker(flag.Name)
				return line
			}
			n++
			line.remember(flag.Name, words[n])
		default:
			if child := findChild(line.node, w); child != nil && positional == 0 {
				line.node = child
			} else {
				positional++
			}
		}
	}
	line.complete(positional, onlyArguments)
	return line
}

func (l *commandLine) remember(flag, value string) {
	switch flag {
	case "config-dir":
		l.root = value
	case "runtime":
		l.runtime = value
	}
}

// complete says what the last word can be after so many arguments.
func (l *commandLine) complete(positional int, onlyArguments bool) {
	if strings.HasPrefix(l.prefix, "-") && !onlyArguments {
		l.flags = true
		return
	}
	l.commands = positional == 0 && !onlyArguments
	node := l.node
	if node.DefaultCmd != nil && len(node.Positional) == 0 {
		node = node.DefaultCmd
	}
	if len(node.Positional) == 0 {
		return
	}
	// Only the last argument can take several words.
	at := node.Positional[min(positional, len(node.Positional)-1)]
	if positional >= len(node.Positional) && !at.IsCumulative() {
		return
	}
	l.value = at
	l.ask = asker(at.Name)
}

// joinEquals undoes bash's splitting of --flag=value into three words.
func joinEquals(words []string) []string {
	var out []string
	for n := 0; n < len(words); n++ {
		if words[n] == "=" && len(out) > 0 && strings.HasPrefix(out[len(out)-1], "--") {
			if n == len(words)-1 {
				out = append(out, "")
			}
			continue
		}
		out = append(out, words[n])
	}
	return out
}

func findFlag(node *kong.Node, name string) *kong.Flag {
	for ; node != nil; node = node.Parent {
		for _, group := range [][]*kong.Flag{node.Flags, defaultFlags(node)} {
			for _, f := range group {
				if name == "--"+f.Name || f.Short != 0 && name == "-"+string(f.Short) {
					return f
				}
			}
		}
	}
	return nil
}

// defaultFlags are the flags of a node's default command, which the node takes.
func defaultFlags(node *kong.Node) []*kong.Flag {
	if node.DefaultCmd == nil {
		return nil
	}
	return node.DefaultCmd.Flags
}

func findChild(node *kong.Node, name string) *kong.Node {
	n := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == name })
	if n < 0 {
		return nil
	}
	return node.Children[n]
}

// fixed returns the candidates that the grammar knows.
func (l *commandLine) fixed() []candidate {
	var found []candidate
	if l.flags {
		for node := l.node; node != nil; node = node.Parent {
			for _, f := range slices.Concat(node.Flags, defaultFlags(node)) {
				if !f.Hidden {
					found = append(found, candidate{"--" + f.Name, f.Help})
				}
			}
		}
	}
	if l.commands {
		for _, c := range l.node.Children {
			if !c.Hidden {
				found = append(found, candidate{c.Name, c.Help})
			}
		}
	}
	if l.value != nil && l.value.Tag.Enum != "" {
		for _, word := range l.value.EnumSlice() {
			found = append(found, candidate{word, ""})
		}
	}
	return found
}

// dynamic returns the candidates that the server knows.
func (l *commandLine) dynamic(ctx context.Context, e *Env, g *Global) []candidate {
	dir := g.ConfigDir
	if l.root != "" {
		dir = l.root
	}
	root, err := e.Root(dir)
	if err != nil {
		return nil
	}
	runtime := l.runtime
	if runtime == "" {
		runtime = e.Getenv("GARCON_RUNTIME")
	}
	if runtime == "" {
		runtime = string(runtimefile.Auto)
	}
	quiet := *e
	quiet.Stderr = discard{}
	i := &Invocation{Env: &quiet, root: root, flags: Connection{Runtime: runtime}}
	if err := i.connect(ctx); err != nil {
		return nil
	}
	return l.ask(ctx, i)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// asker returns how the server is asked for values of a flag or argument.
func asker(name string) func(context.Context, *Invocation) []candidate {
	switch name {
	case "chat", "parent":
		return completeChats
	case "agent":
		return completeAgents
	case "provider":
		return completeProviders
	}
	return nil
}

func completeChats(ctx context.Context, i *Invocation) []candidate {
	var list api.ChatList
	if err := i.do(ctx, "", request{op: api.OpChatsList, query: url.Values{"archived": {"true"}}}, &list); err != nil {
		return nil
	}
	var found []candidate
	for _, c := range list.Chats {
		found = append(found, candidate{c.ID, fmt.Sprintf("%s (%s)", c.Title, stateText(c))})
	}
	return found
}

func completeAgents(ctx context.Context, i *Invocation) []candidate {
	var list api.AgentList
	if err := i.do(ctx, "", request{op: api.OpAgentsList, query: url.Values{"executor": {i.context.DefaultExecutorID}}}, &list); err != nil {
		return nil
	}
	var found []candidate
	for _, a := range list.Agents {
		found = append(found, candidate{a.ID, a.Label})
	}
	return found
}

func completeProviders(ctx context.Context, i *Invocation) []candidate {
	var list api.ProviderList
	if err := i.do(ctx, "", request{op: api.OpProvidersList}, &list); err != nil {
		return nil
	}
	var found []candidate
	for _, p := range list.Providers {
		found = append(found, candidate{p.ID, p.Label})
	}
	return found
}
