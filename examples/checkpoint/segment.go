package checkpoint

import (
	"encoding/binary"
	"hash/crc32"
)

// sumsSuffix is added to a tensor's name for the checksums of its segments.
const sumsSuffix = ".crc32c"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Segments are a sixteenth of a row, so that few elements are read in vain where ranks divide the
// columns, but have at least shortSegment elements, or checksums would take much of the file.
const (
	segmentsPerRow = 16
	shortSegment   = 16
)

// segment is the number of elements of a part that share a checksum. It is a row, halved while that
// gives whole elements, or some rows of a narrow tensor.
func (p Part) segment() int64 {
	shape, n := p.Local(), int64(1)
	if count(shape) == 0 {
		return 1
	}
	for i := len(shape) - 1; i >= 0; i-- {
		row := n
		n *= shape[i]
		if n < 2*shortSegment {
			continue
		}
		limit := max(shortSegment, n/segmentsPerRow)
		for n%2 == 0 && n%(2*row) == 0 && n/2 >= limit {
			n /= 2
		}
		break
	}
	return n
}

// segments is the number of segments of a part.
func segments(p Part, segment int64) int64 { return (count(p.Local()) + segment - 1) / segment }

// sums are the checksums of the segments of some elements, as the file has them.
func sums(values []float32, segment int64) (list []byte) {
	for len(values) > 0 {
		n := min(segment, int64(len(values)))
		list = binary.LittleEndian.AppendUint32(list, crc32.Checksum(bytesOf(values[:n]), castagnoli))
		values = values[n:]
	}
	return list
}
