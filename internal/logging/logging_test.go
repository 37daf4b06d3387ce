package logging

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestFields compares each field with that of package zap.
func TestFields(t *testing.T) {
	err := errors.New("text")
	for name, test := range map[string]struct{ got, want zapcore.Field }{
		"true":     {Bool("k", true), zap.Bool("k", true)},
		"false":    {Bool("k", false), zap.Bool("k", false)},
		"number":   {Uint64("k", 1<<63+5), zap.Uint64("k", 1<<63+5)},
		"text":     {String("k", "v"), zap.String("k", "v")},
		"texts":    {Strings("k", []string{"a", "b"}), zap.Strings("k", []string{"a", "b"})},
		"no texts": {Strings("k", nil), zap.Strings("k", nil)},
		"stringer": {Stringer("k", zapcore.WarnLevel), zap.Stringer("k", zapcore.WarnLevel)},
		"error":    {Error(err), zap.Error(err)},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := zapcore.NewMapObjectEncoder(), zapcore.NewMapObjectEncoder()
			test.got.AddTo(got)
			test.want.AddTo(want)
			assert.NotEmpty(t, want.Fields)
			assert.Equal(t, want.Fields, got.Fields)
		})
	}
}

// TestCaller: an entry names the line that logs it.
func TestCaller(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	log := zap.New(core, zap.AddCaller())
	log.Check(zapcore.InfoLevel, "info").Write(String("k", "v"))
	log.Check(zapcore.WarnLevel, "warning").Write(String("k", "v"))
	lines := logs.TakeAll()
	assert.Len(t, lines, 1)
	assert.Equal(t, "warning", lines[0].Message)
	assert.Equal(t, map[string]any{"k": "v"}, lines[0].ContextMap())
	assert.Contains(t, lines[0].Caller.File, "logging_test.go")
}

func TestNil(t *testing.T) {
	assert.True(t, Nil(nil))
	assert.True(t, Nil((*zap.Logger)(nil)))
	assert.False(t, Nil(zap.NewNop()))
	assert.False(t, Nil(Nop{}))
	Nop{}.Check(zapcore.FatalLevel, "text").Write(String("k", "v"))
}
