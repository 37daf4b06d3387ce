package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of the fields of tensorflow.Event, Summary, Summary.Value and SessionLog.
const (
	eventTime, eventStep, eventVersion, eventSummary, eventSession = 1, 2, 3, 5, 7
	summaryValue                                                   = 1
	valueTag, valueNumber                                          = 1, 2
	sessionStatus, sessionStart                                    = 1, 1
)

// version is the text of the first event of a file.
const version = "brain.Event:2"

// Writer writes one event file. It is not safe for concurrent use.
type Writer struct {
	file  *os.File
	begun bool // an event with numbers is written
}

// Create begins an event file in a folder, which it makes if it is missing.
func Create(folder string) (*Writer, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	// TensorBoard reads the files of a folder in the order of their names.
	name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%09d", now.Unix(), host, os.Getpid(), now.Nanosecond())
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: f}
	if err := w.write(event(now, 0, func(e []byte) []byte {
		return protowire.AppendString(protowire.AppendTag(e, eventVersion, protowire.BytesType), version)
	})); err != nil {
		_ = f.Close() // the error of the write counts
		return nil, err
	}
	return w, nil
}

// Write adds the numbers of a step, by their names. A slash in a name puts it into a group. Programs
// that read the file see the step at once. A nil Writer writes nothing.
func (w *Writer) Write(step int, at time.Time, numbers map[string]float64) error {
	if w == nil {
		return nil
	}
	var records [][]byte
	if !w.begun {
		// What an earlier file has from this step on counts no more.
		records = append(records, event(at, step, func(e []byte) []byte {
			return appendMessage(e, eventSession, protowire.AppendVarint(protowire.AppendTag(nil, sessionStatus, protowire.VarintType), sessionStart))
		}))
	}
	records = append(records, event(at, step, func(e []byte) []byte { return appendMessage(e, eventSummary, summary(numbers)) }))
	if err := w.write(records...); err != nil {
		return err
	}
	w.begun = true
	return nil
}

// Close closes the file.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	return w.file.Close()
}

// event encodes an Event.
func event(at time.Time, step int, what func(e []byte) []byte) []byte {
	e := protowire.AppendTag(nil, eventTime, protowire.Fixed64Type)
	e = protowire.AppendFixed64(e, math.Float64bits(float64(at.UnixMicro())/1e6))
	if step != 0 {
		e = protowire.AppendVarint(protowire.AppendTag(e, eventStep, protowire.VarintType), uint64(step))
	}
	return what(e)
}

// summary encodes a Summary, with the names in order.
func summary(numbers map[string]float64) (s []byte) {
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		v := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), strings.ToValidUTF8(name, "�"))
		v = protowire.AppendTag(v, valueNumber, protowire.Fixed32Type)
		v = protowire.AppendFixed32(v, math.Float32bits(float32(numbers[name])))
		s = appendMessage(s, summaryValue, v)
	}
	return s
}

func appendMessage(to []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), m)
}

// write appends records with one call, so that readers see whole ones.
func (w *Writer) write(records ...[]byte) error {
	var b []byte
	for _, r := range records {
		b = appendRecord(b, r)
	}
	_, err := w.file.Write(b)
	return err
}

// appendRecord frames a record: its length and the checksum of that, its bytes and theirs.
func appendRecord(to, r []byte) []byte {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(r)))
	to = binary.LittleEndian.AppendUint32(append(to, length...), checksum(length))
	return binary.LittleEndian.AppendUint32(append(to, r...), checksum(r))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is a CRC-32C in the disguise that TFRecord files give it, because a checksum over bytes that
// contain their own checksum is weak.
func checksum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
