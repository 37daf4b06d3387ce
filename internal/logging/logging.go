// Package logging makes the fields of log entries with zapcore alone. Package zap has the same
// functions, but imports net/http, which programs without a server or client need not compile.
package logging

import (
	"fmt"
	"reflect"

	"go.uber.org/zap/zapcore"
)

// Nop is a logger that writes nothing.
type Nop struct{}

// Check returns nil: no level is logged.
func (Nop) Check(zapcore.Level, string) *zapcore.CheckedEntry { return nil }

// Nil reports whether a logger is nil or a nil pointer. Methods of a nil *zap.Logger panic.
func Nil(log any) bool {
	v := reflect.ValueOf(log)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Bool is a field with a truth value.
func Bool(key string, value bool) zapcore.Field {
	f := zapcore.Field{Key: key, Type: zapcore.BoolType}
	if value {
		f.Integer = 1
	}
	return f
}

// Uint64 is a field with a number.
func Uint64(key string, value uint64) zapcore.Field {
	return zapcore.Field{Key: key, Type: zapcore.Uint64Type, Integer: int64(value)}
}

// String is a field with a text.
func String(key, value string) zapcore.Field {
	return zapcore.Field{Key: key, Type: zapcore.StringType, String: value}
}

// Strings is a field with a list of texts.
func Strings(key string, values []string) zapcore.Field {
	return zapcore.Field{Key: key, Type: zapcore.ArrayMarshalerType, Interface: zapcore.ArrayMarshalerFunc(func(a zapcore.ArrayEncoder) error {
		for _, v := range values {
			a.AppendString(v)
		}
		return nil
	})}
}

// Stringer is a field whose text is made when the entry is written.
func Stringer(key string, value fmt.Stringer) zapcore.Field {
	return zapcore.Field{Key: key, Type: zapcore.StringerType, Interface: value}
}

// Error is the field "error". The error must not be nil.
func Error(err error) zapcore.Field {
	return zapcore.Field{Key: "error", Type: zapcore.ErrorType, Interface: err}
}
