package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/serve/replicas"
	"github.com/goascend/cann/examples/serve/schema"
)

// Config describes a server. Zero limits mean none.
type Config struct {
	Engine   *replicas.Set
	Language language.Language
	Model    string  // its name in requests
	Ends     []int32 // tokens that end an answer
	// Adapters is the folder below which clients may load adapters and unload them, each a PEFT folder by its
	// name; empty forbids that.
	Adapters string
	Keys     []string // bearer tokens, of which requests need one; nil lets everybody in

	MaxBody    int64                  // bytes of a request
	MaxTokens  int                    // of an answer
	MaxChoices int                    // of a request: prompts times n
	PerClient  int                    // requests of a client at the same time
	Deadline   time.Duration          // of a request
	Patience   time.Duration          // that a client has to take what is written to it; 30 s if zero
	Apart      bool                   // Monitor is served elsewhere, and not as a part of the server
	Profiles   bool                   // Monitor has profiles
	Logger     *slog.Logger           // a line for each request to /v1/; nil keeps silent
	Tracer     trace.Tracer           // spans of each request and its phases; nil makes none
	Collectors []prometheus.Collector // more metrics to show
}

// Server is an http.Handler.
type Server struct {
	Config
	mux     *http.ServeMux
	monitor *http.ServeMux
	keys    [][]byte // hashes
	clients clients
	metrics *metrics
	started time.Time
	// vocabulary is of the model's tokens, for formats of answers.
	vocabulary func() *schema.Vocabulary
}

// New makes a server.
func New(c Config) (*Server, error) {
	if c.Engine == nil || c.Language == nil || c.Model == "" {
		return nil, errors.New("api: a server needs Engine, Language and the name of the Model")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Patience == 0 {
		c.Patience = patience
	}
	if c.Tracer == nil {
		c.Tracer = noop.NewTracerProvider().Tracer("")
	}
	s := &Server{Config: c, mux: http.NewServeMux(), monitor: http.NewServeMux(), started: time.Now(), clients: clients{most: c.PerClient, open: map[string]int{}}}
	s.vocabulary = sync.OnceValue(s.newVocabulary)
	s.metrics = newMetrics(c.Engine, c.Model)
	for _, x := range c.Collectors {
		if err := s.metrics.registry.Register(x); err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
	}
	for _, k := range c.Keys {
		s.keys = append(s.keys, hash(k))
	}
	s.handle("POST", "/v1/completions", s.completions)
	s.handle("POST", "/v1/chat/completions", s.chat)
	s.handle("POST", "/v1/embeddings", s.embeddings)
	s.handle("POST", "/v1/rerank", s.rerank)
	s.handle("GET", "/v1/models", s.models)
	s.handle("GET", "/v1/models/{id...}", s.model)
	if c.Adapters != "" {
		s.handle("POST", "/v1/load_lora_adapter", s.loadAdapter)
		s.handle("POST", "/v1/unload_lora_adapter", s.unloadAdapter)
	}
	s.mux.HandleFunc("GET /{$}", s.page)
	s.monitors()
	s.mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &Error{Status: http.StatusNotFound, Message: "there is no " + r.Method + " " + r.URL.Path, Type: invalid, Code: "not_found"})
	})
	return s, nil
}

// handle lets requests of a method reach a handler, and refuses those of others.
func (s *Server) handle(method, path string, f func(w http.ResponseWriter, r *http.Request) error) {
	s.mux.HandleFunc(method+" "+path, s.guarded(f))
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		fail(w, &Error{Status: http.StatusMethodNotAllowed, Message: r.URL.Path + " takes " + method + ", not " + r.Method, Type: invalid, Code: "method_not_allowed"})
	})
}

// monitors makes what watches the server, which is a part of it unless it is apart.
func (s *Server) monitors() {
	for path, f := range map[string]http.HandlerFunc{
		"GET /healthz": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }, "GET /readyz": s.ready, "GET /metrics": s.metrics.handler().ServeHTTP,
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/profile": pprof.Profile, "GET /debug/pprof/trace": pprof.Trace,
	} {
		if !s.Profiles && strings.Contains(path, "/debug/") {
			continue
		}
		s.monitor.HandleFunc(path, f)
		if !s.Apart {
			s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
				if s.admitted(r) {
					f(w, r)
				} else {
					s.unauthorized(w)
				}
			})
		}
	}
}

// Monitor serves /healthz, /readyz, /metrics and, with Config.Profiles, /debug/pprof, without keys: for a listener that strangers do not
// reach. The server has the same paths, for clients with a key, unless Config.Apart.
func (s *Server) Monitor() http.Handler { return s.monitor }

// ServeHTTP answers a request, and logs it unless it comes from a monitor or shows the page.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, began := requestID(r), time.Now()
	w.Header().Set("X-Request-Id", id)
	seen := &watched{ResponseWriter: w, status: http.StatusOK, patience: s.Patience}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // of the request before, on the same connection
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		s.mux.ServeHTTP(seen, r)
		return
	}
	traced, span := s.beginSpan(r, id)
	defer func() { endSpan(span, seen.status) }()
	ctx, about := withRecord(traced.Context())
	s.mux.ServeHTTP(seen, traced.WithContext(ctx))
	s.Logger.Info("request", append([]any{"id", id, "client", s.clientName(r), "method", brief(r.Method), "path", brief(r.URL.Path), "status", seen.status, "bytes", seen.bytes, "took", time.Since(began)}, about.fields(began)...)...)
}

// ready reports to a load balancer whether the server takes requests.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.Engine.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
	for _, x := range s.Engine.Status() {
		if x.Err != nil {
			_, _ = fmt.Fprintf(w, "device %d: %v\n", x.Device, x.Err)
		}
	}
}
