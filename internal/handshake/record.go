package handshake

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrForged reports a record that the peer did not send at this position of the stream.
var ErrForged = errors.New("a record is not from the peer")

// Sizes of a record: the length of its plaintext (4 bytes, big endian), the ciphertext and the tag of
// AES-256-GCM. The nonce is the number of the record in its direction, and the length is
// authenticated too.
const (
	recordHead = 4
	recordTag  = 16
	recordMax  = 32 << 10
)

// records is one direction of a connection.
type records struct {
	aead   cipher.AEAD
	number uint64
	buffer []byte
	rest   []byte // decrypted, and not read yet; a part of buffer
}

func newRecords(key []byte) records {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return records{aead: aead}
}

// nonce returns the nonce of the next record. Every key is used in one direction of one connection,
// so it never repeats.
func (r *records) nonce() []byte {
	n := binary.BigEndian.AppendUint64(make([]byte, 4, 12), r.number)
	r.number++
	return n
}

// write encrypts the pieces, one after the other, and writes them in as few records as possible.
func (r *records) write(w io.Writer, pieces ...[]byte) error {
	left := 0
	for _, p := range pieces {
		left += len(p)
	}
	var piece []byte // what is left of the piece before pieces
	for left > 0 {
		n := min(left, recordMax)
		left -= n
		r.buffer = binary.BigEndian.AppendUint32(r.buffer[:0], uint32(n))
		for n > 0 {
			for len(piece) == 0 {
				piece, pieces = pieces[0], pieces[1:]
			}
			part := min(n, len(piece))
			r.buffer = append(r.buffer, piece[:part]...)
			piece = piece[part:]
			n -= part
		}
		head, plain := r.buffer[:recordHead], r.buffer[recordHead:]
		r.buffer = r.aead.Seal(r.buffer[:recordHead], r.nonce(), plain, head)
		if _, err := w.Write(r.buffer); err != nil {
			return err
		}
	}
	return nil
}

// read fills p with at least one byte of the stream. It fails with io.EOF if the stream ends between
// two records.
func (r *records) read(from io.Reader, p []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(p) == 0 {
			return 0, nil
		}
		n, err := r.next(from, p)
		if err != nil || n > 0 {
			return n, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next reads a record and decrypts it to p if p has room for it, or to r.rest.
func (r *records) next(from io.Reader, p []byte) (int, error) {
	var head [recordHead]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > recordMax {
		return 0, fmt.Errorf("%w: it announces %d bytes", ErrForged, uint32(n))
	}
	if need := n + recordTag; cap(r.buffer) < need {
		r.buffer = make([]byte, need)
	}
	sealed := r.buffer[:n+recordTag]
	if _, err := io.ReadFull(from, sealed); err != nil {
		return 0, unexpected(err)
	}
	if n <= len(p) {
		if _, err := r.aead.Open(p[:0:n], r.nonce(), sealed, head[:]); err != nil {
			return 0, ErrForged
		}
		return n, nil
	}
	plain, err := r.aead.Open(sealed[:0], r.nonce(), sealed, head[:])
	if err != nil {
		return 0, ErrForged
	}
	r.rest = plain
	return 0, nil
}

// unexpected converts the end of the stream inside a record to an error.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
