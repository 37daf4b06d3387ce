package world

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/goascend/cann/internal/handshake"
)

// protocol identifies the rendezvous protocol to package handshake.
const protocol = "cann/hostgroup/6"

// hello is the message with which a member introduces itself.
type hello struct {
	rank, size int
	budget     time.Duration // how long it waits, 0 for no limit
}

const helloSize = 4 + 4 + 8

func (h hello) bytes() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, helloSize), uint32(h.rank))
	b = binary.BigEndian.AppendUint32(b, uint32(h.size))
	return binary.BigEndian.AppendUint64(b, uint64(h.budget))
}

func parseHello(b []byte) (hello, error) {
	if len(b) != helloSize {
		return hello{}, errMessage
	}
	return hello{
		rank: int(binary.BigEndian.Uint32(b)), size: int(binary.BigEndian.Uint32(b[4:])),
		budget: time.Duration(max(0, int64(binary.BigEndian.Uint64(b[8:])))),
	}, nil
}

// answers of rank 0 to a hello, one byte.
const (
	welcome byte = iota + 1
	sizeDiffers
	rankTaken
	rankBeyond
)

var (
	errSizeDiffers = errors.New("rank 0 has another number of ranks")
	errRankTaken   = errors.New("another process has this rank")
	errRankBeyond  = errors.New("rank 0 has no such rank")
)

var answers = map[byte]error{welcome: nil, sizeDiffers: errSizeDiffers, rankTaken: errRankTaken, rankBeyond: errRankBeyond}

// readAnswer reads rank 0's answer on a member: nil means accepted.
func readAnswer(c *handshake.Conn) error {
	b, err := c.Receive(1)
	if err != nil {
		return err
	}
	if len(b) == 1 {
		if err, known := answers[b[0]]; known {
			return err
		}
	}
	return errMessage
}
