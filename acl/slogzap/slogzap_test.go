package slogzap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/goascend/cann/acl/slogzap"
)

// logged returns the lines that a JSON handler writes for log's calls, without the time.
func logged(t *testing.T, options slog.HandlerOptions, log func(*zap.Logger)) map[string]any {
	t.Helper()
	var out bytes.Buffer
	log(slogzap.New(slog.NewJSONHandler(&out, &options)))
	if out.Len() == 0 {
		return nil
	}
	var m map[string]any
	d := json.NewDecoder(&out)
	require.NoError(t, d.Decode(&m))
	require.False(t, d.More(), "one line per entry")
	require.NotEmpty(t, m["time"])
	delete(m, "time")
	return m
}

func TestLevels(t *testing.T) {
	for _, test := range []struct {
		zap  zapcore.Level
		slog slog.Level
		text string
	}{
		{zapcore.DebugLevel, slog.LevelDebug, "DEBUG"},
		{zapcore.InfoLevel, slog.LevelInfo, "INFO"},
		{zapcore.WarnLevel, slog.LevelWarn, "WARN"},
		{zapcore.ErrorLevel, slog.LevelError, "ERROR"},
		{zapcore.DPanicLevel, slog.LevelError + 4, "ERROR+4"},
	} {
		t.Run(test.zap.String(), func(t *testing.T) {
			write := func(l *zap.Logger) { l.Log(test.zap, "text") }
			assert.Equal(t, map[string]any{"level": test.text, "msg": "text"}, logged(t, slog.HandlerOptions{Level: test.slog}, write))
			assert.Nil(t, logged(t, slog.HandlerOptions{Level: test.slog + 1}, write), "the handler does not want it")
		})
	}
}

// TestFields: every type of field arrives as the value that slog writes for it.
func TestFields(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		field zap.Field
		want  any
	}{
		"string":      {zap.String("k", "v"), "v"},
		"bool":        {zap.Bool("k", true), true},
		"int":         {zap.Int("k", -5), -5.0},
		"int64":       {zap.Int64("k", -1<<40), float64(-1 << 40)},
		"int32":       {zap.Int32("k", -6), -6.0},
		"int16":       {zap.Int16("k", -7), -7.0},
		"int8":        {zap.Int8("k", -8), -8.0},
		"uint":        {zap.Uint("k", 5), 5.0},
		"uint64":      {zap.Uint64("k", 1<<40), float64(1 << 40)},
		"uint32":      {zap.Uint32("k", 6), 6.0},
		"uint16":      {zap.Uint16("k", 7), 7.0},
		"uint8":       {zap.Uint8("k", 8), 8.0},
		"uintptr":     {zap.Uintptr("k", 9), 9.0},
		"float64":     {zap.Float64("k", 0.25), 0.25},
		"float32":     {zap.Float32("k", 0.5), 0.5},
		"complex128":  {zap.Complex128("k", 1+2i), "(1+2i)"},
		"complex64":   {zap.Complex64("k", 1-2i), "(1-2i)"},
		"duration":    {zap.Duration("k", time.Second), float64(time.Second)},
		"time":        {zap.Time("k", at), "2026-01-02T03:04:05Z"},
		"binary":      {zap.Binary("k", []byte{1, 2}), "AQI="},
		"byte string": {zap.ByteString("k", []byte("text")), "text"},
		"stringer":    {zap.Stringer("k", zapcore.WarnLevel), "warn"},
		"error":       {zap.NamedError("k", io.ErrUnexpectedEOF), "unexpected EOF"},
		"reflected":   {zap.Reflect("k", map[string]int{"a": 1}), map[string]any{"a": 1.0}},
		"strings":     {zap.Strings("k", []string{"a", "b"}), []any{"a", "b"}},
		"object":      {zap.Dict("k", zap.Int("a", 1), zap.Namespace("n"), zap.Int("b", 2)), map[string]any{"a": 1.0, "n": map[string]any{"b": 2.0}}},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]any{"level": "INFO", "msg": "text", "k": test.want}
			assert.Equal(t, want, logged(t, slog.HandlerOptions{}, func(l *zap.Logger) { l.Info("text", test.field) }))
			assert.Equal(t, want, logged(t, slog.HandlerOptions{}, func(l *zap.Logger) { l.With(test.field).Info("text") }))
		})
	}
	t.Run("skipped and inlined", func(t *testing.T) {
		got := logged(t, slog.HandlerOptions{}, func(l *zap.Logger) {
			l.Info("text", zap.Skip(), zap.Error(nil), zap.Inline(zapcore.ObjectMarshalerFunc(func(e zapcore.ObjectEncoder) error {
				e.AddInt("a", 1)
				return nil
			})))
		})
		assert.Equal(t, map[string]any{"level": "INFO", "msg": "text", "a": 1.0}, got)
	})
}

// TestNamespaces: fields behind a namespace are a group, across With and the entry itself.
func TestNamespaces(t *testing.T) {
	got := logged(t, slog.HandlerOptions{}, func(l *zap.Logger) {
		l.With(zap.Int("a", 1), zap.Namespace("n"), zap.Int("b", 2)).With(zap.Int("c", 3)).
			Info("text", zap.Int("d", 4), zap.Namespace("m"), zap.Int("e", 5), zap.Namespace("o"), zap.Int("f", 6))
	})
	assert.Equal(t, map[string]any{"level": "INFO", "msg": "text", "a": 1.0, "n": map[string]any{
		"b": 2.0, "c": 3.0, "d": 4.0, "m": map[string]any{"e": 5.0, "o": map[string]any{"f": 6.0}},
	}}, got)
}

// TestLoggersAreIndependent: what one derived logger adds, another does not have.
func TestLoggersAreIndependent(t *testing.T) {
	got := logged(t, slog.HandlerOptions{}, func(l *zap.Logger) {
		base := l.With(zap.Int("a", 1))
		base.With(zap.Int("b", 2))
		base.With(zap.Int("c", 3)).Info("text")
	})
	assert.Equal(t, map[string]any{"level": "INFO", "msg": "text", "a": 1.0, "c": 3.0}, got)
}

func TestNameStackAndSource(t *testing.T) {
	var out bytes.Buffer
	log := slogzap.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{AddSource: true})).WithOptions(zap.AddStacktrace(zapcore.WarnLevel))
	log.Named("acl").Named("pool").Warn("text")
	var m struct {
		Logger, Stack string
		Source        slog.Source
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &m))
	assert.Equal(t, "acl.pool", m.Logger)
	assert.Contains(t, m.Stack, "TestNameStackAndSource")
	assert.Contains(t, m.Source.Function, "TestNameStackAndSource")
	assert.Contains(t, m.Source.File, "slogzap_test.go")
}

// keeps is a handler that keeps the last record.
type keeps struct {
	slog.Handler
	last slog.Record
	fail error
}

func (k *keeps) Handle(_ context.Context, r slog.Record) error {
	k.last = r
	return k.fail
}

// TestErrorsStayErrors: a handler gets the error itself, and its own failure comes back.
func TestErrorsStayErrors(t *testing.T) {
	k := &keeps{Handler: slog.NewTextHandler(io.Discard, nil), fail: io.ErrClosedPipe}
	core := slogzap.NewCore(k)
	cause := errors.Join(io.EOF, io.ErrNoProgress)
	require.ErrorIs(t, core.Write(zapcore.Entry{Message: "text"}, []zap.Field{zap.Error(cause)}), io.ErrClosedPipe)
	k.last.Attrs(func(a slog.Attr) bool {
		assert.Equal(t, "error", a.Key)
		assert.Equal(t, cause, a.Value.Any())
		return true
	})
	assert.Equal(t, 1, k.last.NumAttrs())
	assert.Zero(t, k.last.PC, "the entry has no caller")
	assert.NoError(t, core.Sync())
}

func TestNilHandler(t *testing.T) {
	slogzap.New(nil).Error("text")
	assert.False(t, slogzap.NewCore(nil).Enabled(zapcore.FatalLevel))
}
