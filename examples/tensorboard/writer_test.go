package tensorboard

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// eventType describes the fields of tensorflow.Event that are written, for the decoder of package proto.
func eventType(t testing.TB) protoreflect.MessageDescriptor {
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string, repeated bool) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = proto.String(".tensorflow." + of)
		}
		if repeated {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		return f
	}
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	const (
		double, float   = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, descriptorpb.FieldDescriptorProto_TYPE_FLOAT
		integer, text   = descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_STRING
		small, embedded = descriptorpb.FieldDescriptorProto_TYPE_INT32, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("event.proto"), Package: proto.String("tensorflow"), Syntax: proto.String("proto2"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("Value", field("tag", 1, text, "", false), field("simple_value", 2, float, "", false)),
			message("Summary", field("value", 1, embedded, "Value", true)),
			message("SessionLog", field("status", 1, small, "", false)),
			message("Event", field("wall_time", 1, double, "", false), field("step", 2, integer, "", false), field("file_version", 3, text, "", false),
				field("summary", 5, embedded, "Summary", false), field("session_log", 7, embedded, "SessionLog", false)),
		},
	}, nil)
	require.NoError(t, err)
	return file.Messages().ByName("Event")
}

// slowChecksum computes CRC-32C bit by bit, and its disguise.
func slowChecksum(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			c = c>>1 ^ 0x82f63b78*(c&1)
		}
	}
	return bits.RotateLeft32(^c, -15) + 0xa282ead8
}

// read returns the events of a file, and what follows the last whole one.
func read(t testing.TB, content []byte) (events []*dynamicpb.Message, rest []byte) {
	kind := eventType(t)
	for len(content) >= 12 {
		size := binary.LittleEndian.Uint64(content)
		require.Equal(t, slowChecksum(content[:8]), binary.LittleEndian.Uint32(content[8:]))
		if uint64(len(content)) < 16+size {
			break
		}
		body := content[12:][:size]
		require.Equal(t, slowChecksum(body), binary.LittleEndian.Uint32(content[12+size:]))
		e := dynamicpb.NewMessage(kind)
		require.NoError(t, proto.UnmarshalOptions{DiscardUnknown: false}.Unmarshal(body, e))
		require.Empty(t, e.GetUnknown())
		events, content = append(events, e), content[16+size:]
	}
	return events, content
}

func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

// numbers returns those of a summary.
func numbers(e *dynamicpb.Message) map[string]float64 {
	all := map[string]float64{}
	values := get(get(e, "summary").Message(), "value").List()
	for i := range values.Len() {
		v := values.Get(i).Message()
		all[get(v, "tag").String()] = get(v, "simple_value").Float()
	}
	return all
}

// written returns the only file in a folder.
func written(t testing.TB, folder string) []byte {
	names, err := filepath.Glob(filepath.Join(folder, "events.out.tfevents.*"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	content, err := os.ReadFile(names[0])
	require.NoError(t, err)
	return content
}

// TestWriter: a decoder that knows the messages finds in the file what was written, in order, with
// checksums computed in another way.
func TestWriter(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	w, err := Create(folder)
	require.NoError(t, err)
	at := time.Unix(1700000000, 250_000_000)
	steps := []map[string]float64{
		{"loss": 2.5, "rate/tokens": 1e6, "größe": -0.125},
		{"loss": 0},
		{"loss": math.Inf(1), "norm": math.NaN()},
		{},
	}
	for i, s := range steps {
		require.NoError(t, w.Write(i+7, at.Add(time.Duration(i)*time.Second), s))
	}
	require.NoError(t, w.Close())
	events, rest := read(t, written(t, folder))
	require.Empty(t, rest)
	require.Len(t, events, 2+len(steps))
	require.Equal(t, "brain.Event:2", get(events[0], "file_version").String())
	require.InDelta(t, time.Now().Unix(), get(events[0], "wall_time").Float(), 3600)
	require.EqualValues(t, 1, get(get(events[1], "session_log").Message(), "status").Int(), "earlier files count until here")
	require.EqualValues(t, 7, get(events[1], "step").Int())
	for i, e := range events[2:] {
		require.EqualValues(t, i+7, get(e, "step").Int())
		require.Equal(t, 1700000000.25+float64(i), get(e, "wall_time").Float())
		require.Equal(t, fmt.Sprint(steps[i]), fmt.Sprint(numbers(e)))
	}
	require.NoError(t, (*Writer)(nil).Write(1, at, nil))
	require.NoError(t, (*Writer)(nil).Close())
	_, err = Create(filepath.Join(folder, "no", "\x00"))
	require.Error(t, err)
}

// TestRecords compares records with those that another writer of such files makes.
func TestRecords(t *testing.T) {
	at := time.UnixMilli(256500)
	first := appendRecord(nil, event(at, 0, func(e []byte) []byte { return append(e, "\x1a\rbrain.Event:2"...) }))
	require.Equal(t, "\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7fK\"\t\x00\x00\x00\x00\x00\x08p@\x1a\rbrain.Event:2\xbc\x98!+", string(first))
	number := appendRecord(nil, event(at, 1, func(e []byte) []byte {
		return appendMessage(e, eventSummary, summary(map[string]float64{"v/1": 1.5}))
	}))
	require.Equal(t, "\x19\x00\x00\x00\x00\x00\x00\x00\x8b\xf1\x08(\t\x00\x00\x00\x00\x00\x08p@\x10\x01*\x0c\n\n\n\x03v/1\x15\x00\x00\xc0?,\xec\xc0\x87", string(number))
}

// FuzzWriter: any name and number comes back, rounded to 32 bits.
func FuzzWriter(f *testing.F) {
	f.Add("loss", 2.5, 3)
	f.Add("", math.MaxFloat64, -1)
	f.Add("a/ü\xff", 1e-50, 1<<40)
	f.Fuzz(func(t *testing.T, name string, number float64, step int) {
		folder := t.TempDir()
		w, err := Create(folder)
		require.NoError(t, err)
		require.NoError(t, w.Write(step, time.Now(), map[string]float64{name: number}))
		require.NoError(t, w.Close())
		events, rest := read(t, written(t, folder))
		require.Empty(t, rest)
		require.Len(t, events, 3)
		require.EqualValues(t, step, get(events[2], "step").Int())
		want := map[string]float64{strings.ToValidUTF8(name, "�"): float64(float32(number))}
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(numbers(events[2])))
	})
}
