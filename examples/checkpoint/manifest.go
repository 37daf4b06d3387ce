package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/goascend/cann/examples/budget"
)

// Errors of sets, for errors.Is. The texts name the file, and the tensor if it is known.
var (
	ErrNone    = errors.New("no complete checkpoint")
	ErrCorrupt = errors.New("the bytes are not those that were written")
	ErrMixed   = errors.New("files of different checkpoints")
	ErrMissing = errors.New("the checkpoint lacks a tensor")
	ErrShape   = errors.New("the checkpoint has another shape")
	ErrBusy    = errors.New("another job saves to this folder")
)

// About describes a checkpoint: its step, its layout and the model.
type About struct {
	Step     int               `json:"step"`
	Layout   string            `json:"layout"`   // of the ranks that wrote it
	Model    json.RawMessage   `json:"model"`    // configuration
	Data     map[string]string `json:"data"`     // position in the data, and what it depends on
	Versions map[string]string `json:"versions"` // of the program, CANN and so on
}

// manifest is the last file of a set.
type manifest struct {
	About
	Format int       `json:"format"`
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Files  []file    `json:"files"`
}

// file is one rank's.
type file struct {
	Name    string   `json:"name"`
	Size    int64    `json:"size"`
	Header  uint32   `json:"header"` // CRC-32C of the length and the header
	Tensors []stored `json:"tensors"`
}

// stored is a part in a file.
type stored struct {
	Part
	Segment int64 `json:"segment"` // number of elements that share a checksum
}

const (
	manifestName   = "manifest.json"
	manifestFormat = 2
	// manifestLine is the first line of a manifest. A change of any bit of the file changes this
	// line, or the sum in it is wrong.
	manifestLine = "checkpoint 2 sha256 %x\n"
)

// encode is the content of the manifest's file.
func (m *manifest) encode() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, manifestLine, sha256.Sum256(body)), body...), nil
}

// decodeManifest checks and parses the content of a manifest's file.
func decodeManifest(path string, content []byte) (*manifest, error) {
	end := bytes.IndexByte(content, '\n') + 1
	body := content[end:]
	if end == 0 || !bytes.Equal(content[:end], fmt.Appendf(nil, manifestLine, sha256.Sum256(body))) {
		return nil, fmt.Errorf("checkpoint: %s: the manifest: %w", path, ErrCorrupt)
	}
	// Objects of two bytes, and nulls in their place, would become 50 times as large. An entry for a tensor has more than 48.
	if err := budget.Size(path, bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("null")), 1000+len(body)/48, "objects"); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	m, d := new(manifest), json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields() // a newer program may have written what changes the meaning of the rest
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", path, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("checkpoint: %s: something follows the manifest", path)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("checkpoint: %s has format %d, this program reads %d", path, m.Format, manifestFormat)
	}
	for _, f := range m.Files {
		if f.Name != filepath.Base(f.Name) || f.Name == ".." || f.Name == "." {
			return nil, fmt.Errorf("checkpoint: %s names the file %.200q outside of its folder", path, f.Name)
		}
		for _, t := range f.Tensors {
			if err := t.check(); err != nil {
				return nil, fmt.Errorf("checkpoint: %s: %.200s: %w", path, f.Name, err)
			}
			if t.Segment < 1 || t.Segment > max(count(t.Local()), 1) {
				return nil, fmt.Errorf("checkpoint: %s: %.200s: %v has segments of %d elements", path, f.Name, t.Part, t.Segment)
			}
		}
	}
	return m, nil
}
