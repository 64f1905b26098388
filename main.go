// Command garcon runs, watches, steers and keeps the work of several coding
// agents.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/charmbracelet/log"
	"github.com/muesli/termenv"
	"golang.org/x/term"

	"garcon/provider"
	"garcon/role"
	"garcon/role/cli"
)

// grammar is the command line.
type grammar struct {
	cli.Global
	Controller controller `cmd:"" help:"Run the controller."`
	cli.Commands
}

// controller is the command of the controller role.
type controller struct {
	Bind           string        `help:"Numeric address to listen on." default:"127.0.0.1" placeholder:"ADDR" env:"GARCON_BIND"`
	Port           uint16        `help:"Port to listen on; 0 takes a free one." default:"8080" env:"GARCON_PORT"`
	TLSCert        string        `help:"Certificate for https, a PEM file." name:"tls-cert" placeholder:"FILE" type:"path" env:"GARCON_TLS_CERT"`
	TLSKey         string        `help:"Key of the certificate, a PEM file." name:"tls-key" placeholder:"FILE" type:"path" env:"GARCON_TLS_KEY"`
	PublicURL      string        `help:"Address browsers reach the controller by, when a proxy is in front." name:"public-url" placeholder:"URL" env:"GARCON_PUBLIC_URL"`
	BasePath       string        `help:"Path in front of everything, such as /garcon." placeholder:"PATH" env:"GARCON_BASE_PATH"`
	AllowedHost    []string      `help:"Further name that requests may address the controller by; may be repeated." placeholder:"HOST" env:"GARCON_ALLOWED_HOST"`
	TrustProxy     int           `help:"How many proxies in front are yours: the client's address is the one the farthest of them saw." placeholder:"N" env:"GARCON_TRUST_PROXY"`
	NoAuth         bool          `help:"Let every browser on this machine in without login." env:"GARCON_NO_AUTH"`
	Heartbeat      time.Duration `help:"How often browsers are pinged." default:"2s" placeholder:"TIME" env:"GARCON_HEARTBEAT"`
	Workspace      string        `help:"Workspace to open." default:"default" placeholder:"NAME" env:"GARCON_WORKSPACE"`
	ProjectBaseDir string        `help:"Directory that all projects are in, default the home directory." placeholder:"DIR" env:"GARCON_PROJECT_BASE_DIR"`
	Execution      string        `help:"Where agents run: in-process is this machine." default:"in-process" enum:"in-process" env:"GARCON_EXECUTION"`
	Executor       string        `help:"Executor of requests that name none." placeholder:"ID" env:"GARCON_EXECUTOR"`
	LogLevel       string        `help:"Least severe log line that is printed: debug, info, warn or error." default:"info" enum:"debug,info,warn,error" env:"GARCON_LOG_LEVEL"`
	Demo           bool          `help:"Offer the demo agent, which needs no account and no network." env:"GARCON_DEMO"`
}

// Help implements kong's interface.
func (*controller) Help() string {
	return `The controller owns the chats and their transcripts and runs the agents. It listens on this machine only unless --bind says otherwise, and a browser signs in with the link that garcon login prints. The first interrupt ends it politely, the second at once.

Examples:

    garcon controller
    garcon controller --demo --port 0 --config-dir /tmp/try --project-base-dir .`
}

// The bounds of --heartbeat: proxies close what is idle for longer, and more
// often tells nothing more.
const minHeartbeat, maxHeartbeat = 100 * time.Millisecond, 30 * time.Second

// Validate implements kong's interface.
func (c *controller) Validate() error {
	if c.Heartbeat < minHeartbeat || c.Heartbeat > maxHeartbeat {
		return fmt.Errorf("--heartbeat must be %s to %s", minHeartbeat, maxHeartbeat)
	}
	return c.listen().Check()
}

func (c *controller) listen() role.ListenOptions {
	return role.ListenOptions{
		Bind: c.Bind, Port: int(c.Port), TLSCert: c.TLSCert, TLSKey: c.TLSKey, PublicURL: c.PublicURL, BasePath: c.BasePath,
		AllowedHosts: c.AllowedHost, TrustProxy: c.TrustProxy, NoAuth: c.NoAuth,
	}
}

// Run runs the controller until ctx ends.
func (c *controller) Run(ctx context.Context, e *cli.Env, g *cli.Global) error {
	root, err := e.Root(g.ConfigDir)
	if err != nil {
		return err
	}
	base := c.ProjectBaseDir
	if base == "" {
		base = e.Home
	}
	if base, err = filepath.Abs(base); err != nil {
		return err
	}
	hurry, stop := second(os.Interrupt, syscall.SIGTERM)
	defer stop()
	return role.RunController(ctx, role.ControllerOptions{
		ConfigDir: root, Workspace: c.Workspace, ProjectBase: base,
		Listen: c.listen(), Heartbeat: c.Heartbeat, Executor: c.Executor,
		Demo: c.Demo, Version: cli.ThisBuild().Version, Log: logger(c.LogLevel), Out: e.Stdout, Terminal: e.StdoutTerminal, Hurry: hurry,
	})
}

func main() {
	if provider.IsGuard(os.Args) {
		os.Exit(provider.RunGuard(context.Background(), os.Stdin))
	}
	cli.UnsetEmpty()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends a client at once.
	context.AfterFunc(ctx, stop)
	var g grammar
	os.Exit(cli.Run(ctx, cli.OSEnv(), &g, &g.Global, os.Args[1:]))
}

// second returns a channel that closes at the second of the signals, and the
// function that ends listening for them.
func second(signals ...os.Signal) (<-chan struct{}, func()) {
	arrived, hurry, done := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	signal.Notify(arrived, signals...)
	go func() {
		defer close(done)
		n := 0
		for range arrived {
			if n++; n == 2 {
				close(hurry)
			}
		}
	}()
	return hurry, func() {
		signal.Stop(arrived)
		close(arrived)
		<-done
	}
}

// logger logs to standard error: for people on a terminal, else JSON.
func logger(level string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // the grammar admits only levels
	if term.IsTerminal(int(os.Stderr.Fd())) {
		// Behind an interface, because the package asks a terminal that it
		// recognises for its colours, and waits long for one that does not answer.
		l := log.NewWithOptions(struct{ io.Writer }{os.Stderr}, log.Options{Level: log.Level(least), ReportTimestamp: true})
		l.SetColorProfile(termenv.NewOutput(os.Stderr).EnvColorProfile())
		return slog.New(l)
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: least}))
}
