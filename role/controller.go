package role

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/provider"
	"garcon/provider/claude"
	"garcon/provider/demo"
	"garcon/provider/direct"
	"garcon/role/controller/auth"
	"garcon/role/controller/chat"
	"garcon/role/controller/doctor"
	"garcon/role/controller/feed"
	"garcon/role/controller/fleet"
	"garcon/role/controller/folder"
	"garcon/role/controller/httpapi"
	"garcon/role/controller/permission"
	"garcon/role/controller/web"
	"garcon/role/executor/runtime"
	"garcon/store"
	"garcon/store/runtimefile"
	"garcon/ui"
)

// Timings of the controller's listener.
const (
	// readHeaderTimeout bounds a request's header: it is one packet.
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is how long a connection is kept for the next request.
	idleTimeout = 2 * time.Minute
	// stopGrace is how long agents may take to end politely at shutdown.
	stopGrace = 20 * time.Second
	// answerGrace is how long answers already being written may take then.
	answerGrace = 2 * time.Second
)

// maxHeader bounds a request's header, in bytes.
const maxHeader = 64 << 10

// ControllerOptions configure the controller role.
type ControllerOptions struct {
	// ConfigDir is the config root, ProjectBase the directory that projects
	// must be below.
	ConfigDir, Workspace, ProjectBase string
	// Listen says how it is reached.
	Listen ListenOptions
	// Heartbeat is how often browsers are pinged, zero for the default.
	Heartbeat time.Duration
	// Executor is the default executor, empty for the setting's.
	Executor string
	// Demo offers the built-in demo agent.
	Demo    bool
	Version string
	Log     *slog.Logger
	// Out gets what a person reads at start and at the end; Terminal says that
	// it is a terminal, which keeps no secrets.
	Out      io.Writer
	Terminal bool
	// Hurry, when closed, cuts the shutdown short.
	Hurry <-chan struct{}
}

// RunController runs the controller until ctx ends, then ends every agent and
// returns.
func RunController(ctx context.Context, o ControllerOptions) (err error) {
	public, base, err := o.Listen.check()
	if err != nil {
		return err
	}
	root, err := store.OpenRoot(o.ConfigDir, store.RoleController)
	if err != nil {
		return err
	}
	defer closing(&err, "give back the lease", root.Close)
	doors, err := openDoors(o.Listen, public, base)
	if err != nil {
		return err
	}
	defer doors.close()
	workspace, err := root.OpenWorkspace(ctx, o.Workspace, store.Options{Log: o.Log, Version: o.Version})
	if err != nil {
		return err
	}
	defer closing(&err, "close the workspace", workspace.Close)
	sessions, err := auth.OpenSessions(ctx, workspace.Registry(), o.Workspace, o.Log)
	if err != nil {
		return err
	}
	folders := folder.Open(workspace.Registry(), o.Log)
	defer folders.Close()
	descriptor := runtimefile.Descriptor{
		Schema: runtimefile.Schema, Role: string(store.RoleController), InstanceID: runtimefile.NewInstanceID(),
		URL: doors.url, PID: os.Getpid(), StartedAt: time.Now().UnixMilli(),
		Capability: runtimefile.NewCapability(),
	}
	guard := auth.NewGuard(auth.Options{
		Addrs: doors.addrs(), PublicURL: public, BasePath: base, AllowedHosts: o.Listen.AllowedHosts,
		TrustProxy: o.Listen.TrustProxy, NoAuth: o.Listen.NoAuth, Capability: descriptor.Capability, Sessions: sessions,
	})
	pages, err := web.New(ui.Files(), base, guard)
	if err != nil {
		return err
	}

	var chats atomic.Pointer[chat.Service]
	local, err := runtime.New(ctx, runtime.Options{
		ID: exec.LocalID, Version: o.Version, ConfigDir: o.ConfigDir, StateDir: filepath.Join(root.Dir(), "local"),
		ProjectBase: o.ProjectBase, Adapters: adapters(o.Demo), Log: o.Log,
		Credentials: chat.CredentialsFor(exec.LocalID, chats.Load),
	})
	if err != nil {
		return err
	}
	desk := permission.New(o.Log)
	service := chat.New(chat.Options{
		Workspace: workspace, Runtimes: fleet.New(o.Executor, local), Desk: desk,
		Instance: descriptor.InstanceID, Log: o.Log,
	})
	chats.Store(service)
	live := feed.New(feed.Options{
		Chats: service, Desk: desk, Folders: folders, Executors: []exec.Runtime{local}, Guard: guard,
		Host:     api.Host{Version: o.Version, Workspace: o.Workspace, NoAuth: o.Listen.NoAuth, Demo: o.Demo},
		Instance: descriptor.InstanceID, Heartbeat: o.Heartbeat, Log: o.Log,
	})
	check := doctor.Doctor{Root: root, Workspace: workspace, Chats: service, Runtimes: []exec.Runtime{local}, Version: o.Version}
	requests, endRequests := context.WithCancel(context.Background())
	defer endRequests()
	server := &http.Server{
		Handler: &web.Front{
			Guard: guard, BasePath: base, Feed: live, UI: pages,
			API: httpapi.New(httpapi.Options{
				Chats: service, Folders: folders, Answers: live, Guard: guard, Descriptor: descriptor, Home: doors.home,
				Workspace: o.Workspace, Version: o.Version, Doctor: check.Run, Log: o.Log,
			}),
		},
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), BaseContext: func(net.Listener) context.Context { return requests },
	}

	group, serving := errgroup.WithContext(ctx)
	for _, l := range doors.listeners() {
		group.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	stop := drain{o, live, service, server, local, endRequests}
	if err := runtimefile.Write(root.RuntimeFile(), descriptor); err != nil {
		return errors.Join(err, stop.run(), group.Wait())
	}
	defer closing(&err, "remove the runtime descriptor", func() error {
		return runtimefile.RemoveOwn(root.RuntimeFile(), descriptor.InstanceID)
	})
	o.Log.Info("controller listening", "url", descriptor.URL, "pid", descriptor.PID, "config", o.ConfigDir)
	greet(o, doors.home, sessions)
	fmt.Fprint(o.Out, exposure(o.Listen, public))

	<-serving.Done()
	return errors.Join(stop.run(), group.Wait())
}

// drain is what ends at shutdown, in order.
type drain struct {
	o           ControllerOptions
	live        *feed.Feed
	chats       *chat.Service
	server      *http.Server
	local       exec.Runtime
	endRequests func()
}

// run ends everything, politely until the grace is over or the user is in a
// hurry.
func (d drain) run() error {
	grace, cancel := context.WithTimeout(context.Background(), stopGrace)
	var hurry sync.WaitGroup
	hurry.Go(func() {
		select {
		case <-d.o.Hurry:
			cancel()
		case <-grace.Done():
		}
	})
	defer hurry.Wait()
	defer cancel()
	// Browsers first: a chat that ends under them would look like a failure of
	// the chat, and one connection that ends like what it is.
	d.live.Close()
	for _, e := range d.chats.Close(grace) {
		fmt.Fprintf(d.o.Out, "ended the turn going in chat %s (%s)\n", e.ChatID, e.Title)
	}
	d.endRequests()
	answers, cancelAnswers := context.WithTimeout(context.Background(), answerGrace)
	defer cancelAnswers()
	if err := d.server.Shutdown(answers); err != nil {
		_ = d.server.Close() // what is left has had its time
	}
	return d.local.Close(grace)
}

// closing calls f at the end of a function and keeps its failure.
func closing(err *error, what string, f func() error) {
	if e := f(); e != nil {
		*err = errors.Join(*err, fmt.Errorf("%s: %w", what, e))
	}
}

// adapters returns what makes the integrations of a runtime, in the order in
// which they are listed.
func adapters(withDemo bool) func(provider.Host) ([]provider.Adapter, error) {
	type maker struct {
		id   string
		make func(provider.Host) (provider.Adapter, error)
	}
	makers := []maker{{"claude", func(h provider.Host) (provider.Adapter, error) { return claude.New(h, claude.Options{}) }}}
	for _, p := range direct.Protocols() {
		makers = append(makers, maker{string(p), func(h provider.Host) (provider.Adapter, error) { return direct.New(h, p), nil }})
	}
	if withDemo {
		makers = append(makers, maker{"demo", func(h provider.Host) (provider.Adapter, error) { return demo.New(h) }})
	}
	return func(h provider.Host) ([]provider.Adapter, error) {
		all := make([]provider.Adapter, len(makers))
		for i, m := range makers {
			own, err := h.For(m.id)
			if err != nil {
				return nil, err
			}
			if all[i], err = m.make(own); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
}

// greet tells a person what to do next.
func greet(o ControllerOptions, home string, sessions *auth.Sessions) {
	fmt.Fprintf(o.Out, "garcon controller %s is listening on %s\n\n", o.Version, home)
	agent := "claude"
	if o.Demo {
		agent = "demo"
	}
	root := ""
	if dir, err := os.UserHomeDir(); err != nil || o.ConfigDir != filepath.Join(dir, ".garcon") {
		root = " --config-dir " + strconv.Quote(o.ConfigDir)
	}
	switch {
	case o.Listen.NoAuth:
		fmt.Fprintf(o.Out, "Open it in a browser. There is no login: every user of this machine can do so.\n\n")
	case o.Terminal && !sessions.Any() && !sessions.PasswordSet():
		fmt.Fprintf(o.Out, "Open this link in a browser within 10 minutes; it works once:\n  %s\n\n", sessions.Link(home).URL)
	default:
		fmt.Fprintf(o.Out, "To sign a browser in, run `garcon login%s`: it prints a link.\n\n", root)
	}
	fmt.Fprintf(o.Out, "In another shell:\n  garcon chats%s start --agent %s \"Say hello\"\n  garcon chats%s list\n  garcon%s doctor\n\nCtrl-C here ends it, and every agent with it.\n", root, agent, root, root)
}
