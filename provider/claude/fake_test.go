package claude

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// fakeVariable makes the test binary play the CLI: it names what it does.
const fakeVariable = "FAKE_CLI"

// fakeDirVariable names a directory for what a fake tells the test.
const fakeDirVariable = "FAKE_CLI_DIR"

// fake is a CLI that does what no real one can be made to do.
type fake struct {
	in   *bufio.Reader
	out  io.Writer
	dir  string
	args []string
}

// sent is a line that the host wrote.
type sent struct {
	Type      string `json:"type"`
	UUID      string `json:"uuid"`
	RequestID string `json:"request_id"`
	Request   struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	Response struct {
		RequestID string          `json:"request_id"`
		Subtype   string          `json:"subtype"`
		Response  json.RawMessage `json:"response"`
	} `json:"response"`
}

const fakeSession = "11111111-1111-4111-8111-111111111111"

// playFake plays the CLI and returns its exit status.
func playFake(name string) int {
	f := &fake{in: bufio.NewReaderSize(os.Stdin, 1<<20), out: os.Stdout, dir: os.Getenv(fakeDirVariable), args: os.Args[1:]}
	if slices.Contains(f.args, "--version") {
		if name == "old" {
			fmt.Println("1.0.17 (Claude Code)")
		} else {
			fmt.Println("2.1.332 (Claude Code)")
		}
		return 0
	}
	play, ok := fakes[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no fake", name)
		return 2
	}
	return play(f)
}

// fakes are the plays, by name.
var fakes = map[string]func(*fake) int{
	"ok": func(f *fake) int {
		f.start()
		return f.turns(func(s sent) { f.answer(s, "fine") })
	},
	"silent": func(f *fake) int {
		f.note("started")
		f.read()
		return f.hang()
	},
	"root": func(f *fake) int {
		return f.die(1, "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons")
	},
	"gone": func(f *fake) int { return f.die(1, "No conversation found with session ID: x") },
	"new option": func(f *fake) int {
		return f.die(1, "error: unknown option '--permission-prompt-tool'")
	},
	"broken": func(f *fake) int { return f.die(3, "Segmentation fault\nsomewhere") },
	"crash": func(f *fake) int {
		f.start()
		s := f.message()
		f.taken(s)
		f.text(s, "half")
		return f.die(7, strings.Repeat("noise\n", 5000)+"the reason")
	},
	"noise": func(f *fake) int {
		f.start()
		return f.turns(func(s sent) {
			f.taken(s)
			fmt.Fprintln(f.out, "Warning: this is no JSON")
			fmt.Fprintln(f.out, "[1,2,3]")
			fmt.Fprintln(f.out, "\xff\xfe\x00 bytes")
			fmt.Fprintln(f.out, `{"type":"brand_new_thing","x":{"y":[1]}}`)
			fmt.Fprintln(f.out, `{"type":"assistant","message":"not an object"}`)
			fmt.Fprintln(f.out, `{"type":"assistant","message":{"content":[1,"two",{"type":"text","text":3}]}}`)
			io.WriteString(f.out, `{"type":"junk","x":"`)
			for range 70 {
				io.WriteString(f.out, strings.Repeat("x", 1<<20))
			}
			fmt.Fprintln(f.out, `"}`)
			f.text(s, "done \\u0000 \\ud800 \xed\xa0\x80")
			f.end(s, "completed")
		})
	},
	"big": func(f *fake) int {
		f.start()
		return f.turns(func(s sent) {
			f.taken(s)
			f.text(s, strings.Repeat("0123456789abcdef", 1<<20)) // 16 MiB
			f.text(s, "end")
			f.end(s, "completed")
		})
	},
	"deaf": func(f *fake) int {
		// Obeys no interrupt and no signal.
		signal.Ignore(syscall.SIGTERM)
		f.start()
		s := f.message()
		f.taken(s)
		f.text(s, "I go on")
		return f.hang()
	},
	"obeys late": func(f *fake) int {
		// Acknowledges an interrupt and goes on.
		f.start()
		f.taken(f.message())
		for {
			s, ok := f.read()
			if !ok {
				return 0
			}
			if s.Type == "control_request" {
				f.reply(s, map[string]any{"still_queued": []string{}})
			}
		}
	},
	"mute": func(f *fake) int {
		// Does not take the message.
		f.start()
		f.message()
		f.note("got it")
		return f.hang()
	},
	"not reading": func(f *fake) int {
		f.start()
		return f.hang()
	},
	"asks": func(f *fake) int {
		// Asks, and confirms no answer.
		f.start()
		s := f.message()
		f.taken(s)
		f.print(`{"type":"control_request","request_id":"req-1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"x"},"tool_use_id":"t1"}}`)
		f.print(`{"type":"control_request","request_id":"req-2","request":{"subtype":"new_kind_of_request"}}`)
		for {
			r, ok := f.read()
			if !ok {
				return 0
			}
			if r.Type == "control_response" && r.Response.RequestID == "req-2" {
				f.note("answer to req-2: " + r.Response.Subtype)
			}
			if r.Type == "control_request" && r.Request.Subtype == "interrupt" {
				f.reply(r, nil)
				f.end(s, "aborted_tools")
			}
		}
	},
	"dies idle": func(f *fake) int {
		f.start()
		s := f.message()
		f.answer(s, "first")
		f.note("dying")
		return 0
	},
	"refuses": func(f *fake) int {
		f.start()
		return f.turns(func(s sent) {
			f.taken(s)
			f.lifecycle(s, "refused")
			f.print(`{"type":"system","subtype":"session_state_changed","state":"idle"}`)
		})
	},
	"gate": func(f *fake) int {
		// Starts when a file lets it.
		f.note("started " + fmt.Sprint(os.Getpid()))
		for {
			if _, err := os.Stat(f.dir + "/open"); err == nil {
				break
			}
			syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 5000})
		}
		f.start()
		return f.turns(func(s sent) { f.answer(s, "fine") })
	},
}

func (f *fake) print(line string) { fmt.Fprintln(f.out, line) }

// note tells the test something.
func (f *fake) note(text string) {
	file, err := os.OpenFile(f.dir+"/notes", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Fprintln(file, text)
	file.Close()
}

func (f *fake) die(code int, stderr string) int {
	fmt.Fprintln(os.Stderr, stderr)
	return code
}

// hang waits to be killed.
func (f *fake) hang() int { select {} }

func (f *fake) read() (sent, bool) {
	line, err := f.in.ReadBytes('\n')
	if err != nil {
		return sent{}, false
	}
	var s sent
	if err := json.Unmarshal(line, &s); err != nil {
		fmt.Fprintln(os.Stderr, "Error parsing streaming input line", err)
		os.Exit(1)
	}
	return s, true
}

// start answers the first request.
func (f *fake) start() {
	s, ok := f.read()
	if !ok {
		os.Exit(0)
	}
	f.reply(s, json.RawMessage(`{"models":[{"value":"default","displayName":"Default"}],"commands":[{"name":"compact","description":"d"}]}`))
}

func (f *fake) reply(s sent, body any) {
	data, err := json.Marshal(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "success", "request_id": s.RequestID, "response": body,
	}})
	if err != nil {
		panic(err)
	}
	f.print(string(data))
}

// message waits for a message and answers requests meanwhile.
func (f *fake) message() sent {
	for {
		s, ok := f.read()
		if !ok {
			os.Exit(0)
		}
		if s.Type == "user" {
			return s
		}
		if s.Type == "control_request" {
			f.reply(s, map[string]any{})
		}
	}
}

// turns answers messages until there are no more.
func (f *fake) turns(answer func(sent)) int {
	for {
		s, ok := f.read()
		if !ok {
			return 0
		}
		switch s.Type {
		case "user":
			answer(s)
		case "control_request":
			f.reply(s, map[string]any{})
		}
	}
}

func (f *fake) lifecycle(s sent, state string) {
	f.print(fmt.Sprintf(`{"type":"command_lifecycle","command_uuid":%q,"state":%q}`, s.UUID, state))
}

func (f *fake) taken(s sent) {
	f.print(`{"type":"system","subtype":"session_state_changed","state":"running"}`)
	f.lifecycle(s, "queued")
	f.lifecycle(s, "started")
	f.print(`{"type":"system","subtype":"init","model":"m","permissionMode":"default"}`)
	f.print(fmt.Sprintf(`{"type":"user","uuid":%q,"isReplay":true,"message":{"role":"user","content":"x"}}`, s.UUID))
}

func (f *fake) text(s sent, text string) {
	fmt.Fprintf(f.out, `{"type":"assistant","uuid":"a-%s","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"%s"}]}}`+"\n", s.UUID[:8], text)
}

func (f *fake) end(s sent, reason string) {
	f.print(fmt.Sprintf(`{"type":"result","subtype":"success","is_error":%t,"num_turns":1,"stop_reason":"end_turn","terminal_reason":%q,"result":"x","session_id":%q}`,
		reason != "completed", reason, fakeSession))
	f.lifecycle(s, "completed")
	f.print(`{"type":"system","subtype":"session_state_changed","state":"idle"}`)
}

func (f *fake) answer(s sent, text string) {
	f.taken(s)
	f.text(s, text)
	f.end(s, "completed")
}
