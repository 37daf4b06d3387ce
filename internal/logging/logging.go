// Package logging makes the fields of what the module logs. Only tests and package slogzap import
// package zap itself, which imports net/http: its types in zapcore are enough for a *zap.Logger to be
// used, and a program that has no use for net/http does not compile it.
package logging

import (
	"fmt"
	"reflect"

	"go.uber.org/zap/zapcore"
)

// Logger is what the module's packages use of a *zap.Logger.
type Logger interface {
	Check(level zapcore.Level, message string) *zapcore.CheckedEntry
}

// Nop logs nothing.
type Nop struct{}

// Check implements Logger.
func (Nop) Check(zapcore.Level, string) *zapcore.CheckedEntry { return nil }

// Nil reports whether there is no logger: a nil *zap.Logger would crash.
func Nil(log Logger) bool {
	v := reflect.ValueOf(log)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// OrNop returns the logger, or one that logs nothing instead of nil.
func OrNop(log Logger) Logger {
	if Nil(log) {
		return Nop{}
	}
	return log
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

// Error is the field "error" with an error that is not nil.
func Error(err error) zapcore.Field {
	return zapcore.Field{Key: "error", Type: zapcore.ErrorType, Interface: err}
}
