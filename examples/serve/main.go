package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/serve/replicas"
	"github.com/goascend/cann/ops"
)

func main() {
	o, err := parseFlags(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop) // the second signal ends the program
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It writes the address to out, and progress and logs to report.
func run(ctx context.Context, o options, out, report io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(report, nil))
	o.engine.Logger, o.api.Logger = log, log
	if o.engine.Pool, err = hub.ReadPooling(o.source.Folder); err != nil {
		return err
	}
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	load := func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
		source := o.source
		source.Parallel, source.Predict, source.Scores = par, o.engine.Speculate > 0, true
		return source.Model(ctx, st, reg, report)
	}
	if o.devices[0], err = o.engine.Join(ctx, o.devices[0]); err != nil {
		return err
	}
	if g := o.engine.Group; g != nil {
		if len(o.devices) > 1 {
			return errors.New("-device names one device when the ranks of -tp are processes")
		}
		if g.Rank() > 0 {
			// The first rank ends this one, when its requests have ended.
			return engine.Follow(context.WithoutCancel(ctx), rt, o.devices[0], load, o.engine)
		}
	}
	e, err := replicas.Open(ctx, rt, o.devices, load, o.engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if o.api.Ends, err = o.source.Ends(); err != nil {
		return err
	}
	if o.api.Language, err = language.Load(o.source.Folder, e.Vocab()); err != nil {
		return err
	}
	if o.judge != "" {
		o.api.Language = language.Judge(o.api.Language, o.task)
	}
	if err := o.loadAdapters(ctx, e); err != nil {
		return err
	}
	o.api.Engine = e
	stop, err := o.observe(ctx, rt, e)
	if err != nil {
		return err
	}
	defer stop()
	o.api.Apart = o.monitor != ""
	handler, err := api.New(o.api)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	if o.monitor != "" {
		stop, err := o.watched(ctx, handler.Monitor())
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer stop()
	}
	o.invite(out, listener.Addr(), e.Config())
	return o.serve(ctx, e, handler, listener)
}

// loadAdapters loads the adapters of -adapters.
func (o *options) loadAdapters(ctx context.Context, e *replicas.Set) error {
	if o.api.Adapters == "" {
		return nil
	}
	entries, err := os.ReadDir(o.api.Adapters)
	if err != nil {
		return fmt.Errorf("-adapters: %w", err)
	}
	for _, x := range entries {
		folder := filepath.Join(o.api.Adapters, x.Name())
		if _, err := os.Stat(filepath.Join(folder, "adapter_config.json")); err != nil {
			continue
		}
		if err := e.LoadAdapter(ctx, x.Name(), folder); err != nil {
			return fmt.Errorf("-adapters: %w", err)
		}
	}
	return nil
}

// invite says where the server is, and how to ask it for what its model does.
func (o *options) invite(out io.Writer, address net.Addr, c model.Config) {
	host, more, prompt, text := address.String(), "", `"func "`, "func "
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() { // browsers refuse such an address
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	url := "http://" + host
	if o.cert != "" {
		url = "https://" + host
	}
	if o.api.Keys != nil {
		more = ` -H "Authorization: Bearer KEY"`
	}
	if ids, err := o.api.Language.Encode("func ", 100); err != nil || len(ids) == 0 { // without a tokenizer
		prompt, text = "[1]", "1"
	}
	how, path, body := "open it in a browser, or ask it", "completions", fmt.Sprintf(`"prompt":%s,"max_tokens":60`, prompt)
	switch {
	case c.Score:
		how, path, body = "ask it", "rerank", fmt.Sprintf(`"query":%[1]q,"documents":[%[1]q]`, text)
	case c.Encoder():
		how, path, body = "ask it", "embeddings", `"input":`+prompt
	}
	fmt.Fprintf(out, "%s serves %s; %s with\ncurl %s/v1/%s%s -d '{\"model\":%q,%s}'\n", url, o.api.Model, how, url, path, more, o.api.Model, body)
}

// watched serves what monitors ask for on a listener of its own, until stop is called.
func (o *options) watched(ctx context.Context, monitor http.Handler) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.monitor)
	if err != nil {
		return nil, fmt.Errorf("-monitor: %w", err)
	}
	o.engine.Logger.Info("monitoring", "address", listener.Addr().String())
	server := &http.Server{Handler: monitor, ReadHeaderTimeout: slowest, ReadTimeout: slowest, IdleTimeout: 4 * slowest}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			o.engine.Logger.Error("monitoring has ended", "error", err)
		}
	}()
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}

// slowest is the time that a client has to send the head of a request, and its body.
const slowest = 30 * time.Second

// serve answers requests until ctx ends, and then lets those that run come to their end.
func (o *options) serve(ctx context.Context, e *replicas.Set, handler http.Handler, listener net.Listener) (failure error) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: slowest, ReadTimeout: slowest, IdleTimeout: 4 * slowest}
	log := o.engine.Logger
	log.Info("serving", "address", listener.Addr().String(), "model", o.api.Model, "max_length", e.MaxLength(), "devices", o.devices, "keys", len(o.api.Keys))
	defer func() { log.Info("ended", "error", failure) }()
	var lost error // why the engine has ended by itself
	ended := make(chan error, 1)
	go func() {
		if o.cert != "" {
			ended <- server.ServeTLS(listener, o.cert, o.key)
		} else {
			ended <- server.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-e.Done():
		lost = e.Ready()
	}
	log.Info("draining", "requests", e.Stats().Running+e.Stats().Waiting, "limit", o.drain, "lost", lost)
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.drain)
	defer cancel()
	err := e.Drain(limit)
	if err != nil {
		err = fmt.Errorf("after -drain %v some requests had not ended: %w", o.drain, err)
	}
	// Requests that are left end with an error, which their clients still receive.
	err = errors.Join(err, e.Close())
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(last) != nil {
		err = errors.Join(err, server.Close())
	}
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return errors.Join(lost, err)
}
