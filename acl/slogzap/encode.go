package slogzap

import (
	"fmt"
	"log/slog"
	"time"

	"go.uber.org/zap/zapcore"
)

// group holds the fields of one namespace; the first group has no name.
type group struct {
	name  string
	attrs []slog.Attr
}

// encode turns fields into attributes, by namespace: each group lies in the one before it.
func encode(fields []zapcore.Field) []group {
	e := &encoder{groups: make([]group, 1)}
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			e.add(f.Key, slog.AnyValue(err)) // AddTo would keep its text only
			continue
		}
		f.AddTo(e)
	}
	return e.groups
}

// nest puts each group into the one before it, as its last attribute.
func nest(groups []group) []slog.Attr {
	for i := len(groups) - 1; i > 0; i-- {
		inner := slog.Attr{Key: groups[i].name, Value: slog.GroupValue(groups[i].attrs...)}
		groups[i-1].attrs = append(groups[i-1].attrs, inner)
	}
	return groups[0].attrs
}

// encoder implements zapcore.ObjectEncoder.
type encoder struct{ groups []group }

func (e *encoder) add(key string, v slog.Value) {
	last := &e.groups[len(e.groups)-1]
	last.attrs = append(last.attrs, slog.Attr{Key: key, Value: v})
}

// OpenNamespace puts what follows in a group.
func (e *encoder) OpenNamespace(key string) { e.groups = append(e.groups, group{name: key}) }

// AddObject makes a group of an object's fields.
func (e *encoder) AddObject(key string, o zapcore.ObjectMarshaler) error {
	inner := &encoder{groups: make([]group, 1)}
	err := o.MarshalLogObject(inner)
	e.add(key, slog.GroupValue(nest(inner.groups)...))
	return err
}

// AddArray makes a []any of an array: slog has no array of its own.
func (e *encoder) AddArray(key string, a zapcore.ArrayMarshaler) error {
	m := zapcore.NewMapObjectEncoder()
	err := m.AddArray(key, a)
	e.add(key, slog.AnyValue(m.Fields[key]))
	return err
}

// AddReflected keeps the value as it is.
func (e *encoder) AddReflected(key string, v any) error {
	e.add(key, slog.AnyValue(v))
	return nil
}

// Each type of field is the kind of value that slog has for it; complex numbers are text, which
// every handler can write.

func (e *encoder) AddBinary(key string, v []byte)     { e.add(key, slog.AnyValue(v)) }
func (e *encoder) AddByteString(key string, v []byte) { e.add(key, slog.StringValue(string(v))) }
func (e *encoder) AddBool(key string, v bool)         { e.add(key, slog.BoolValue(v)) }
func (e *encoder) AddComplex128(key string, v complex128) {
	e.add(key, slog.StringValue(fmt.Sprint(v)))
}
func (e *encoder) AddComplex64(key string, v complex64)    { e.add(key, slog.StringValue(fmt.Sprint(v))) }
func (e *encoder) AddDuration(key string, v time.Duration) { e.add(key, slog.DurationValue(v)) }
func (e *encoder) AddFloat64(key string, v float64)        { e.add(key, slog.Float64Value(v)) }
func (e *encoder) AddFloat32(key string, v float32)        { e.add(key, slog.Float64Value(float64(v))) }
func (e *encoder) AddInt(key string, v int)                { e.add(key, slog.Int64Value(int64(v))) }
func (e *encoder) AddInt64(key string, v int64)            { e.add(key, slog.Int64Value(v)) }
func (e *encoder) AddInt32(key string, v int32)            { e.add(key, slog.Int64Value(int64(v))) }
func (e *encoder) AddInt16(key string, v int16)            { e.add(key, slog.Int64Value(int64(v))) }
func (e *encoder) AddInt8(key string, v int8)              { e.add(key, slog.Int64Value(int64(v))) }
func (e *encoder) AddString(key, v string)                 { e.add(key, slog.StringValue(v)) }
func (e *encoder) AddTime(key string, v time.Time)         { e.add(key, slog.TimeValue(v)) }
func (e *encoder) AddUint(key string, v uint)              { e.add(key, slog.Uint64Value(uint64(v))) }
func (e *encoder) AddUint64(key string, v uint64)          { e.add(key, slog.Uint64Value(v)) }
func (e *encoder) AddUint32(key string, v uint32)          { e.add(key, slog.Uint64Value(uint64(v))) }
func (e *encoder) AddUint16(key string, v uint16)          { e.add(key, slog.Uint64Value(uint64(v))) }
func (e *encoder) AddUint8(key string, v uint8)            { e.add(key, slog.Uint64Value(uint64(v))) }
func (e *encoder) AddUintptr(key string, v uintptr)        { e.add(key, slog.Uint64Value(uint64(v))) }
