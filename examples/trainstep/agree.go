package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl/world"
)

// ownFlags may differ between ranks: they concern one process, or are read on rank 0 only.
var ownFlags = strings.Fields("device ranks flight profile v log metrics tensorboard tokenize compare simulate world plan search simulate-trace pp-draw")

// pathFlags may differ too, as hosts have their files in different places: what is there is compared.
var pathFlags = strings.Fields("data eval model adapter")

// given returns the values of the flags on which all ranks must agree.
func given(f *command.Flags) map[string]string {
	all := map[string]string{}
	f.VisitAll(func(one *flag.Flag) {
		if !slices.Contains(ownFlags, one.Name) && !slices.Contains(pathFlags, one.Name) {
			all["-"+one.Name] = one.Value.String()
		}
	})
	return all
}

// agree compares flags, samples, model and versions of the ranks, before anything is computed that depends on them.
func (o options) agree(ctx context.Context, group *world.Group, rt *acl.Runtime, text *corpus) error {
	facts, err := o.facts(text)
	if err != nil {
		return err
	}
	for name, value := range versions(rt) {
		facts["the version of "+name] = value
	}
	return job.Agree(ctx, group, facts)
}

// facts returns the flags, and what the files are that they name.
func (o options) facts(text *corpus) (map[string]string, error) {
	all := maps.Clone(o.given)
	if text.tokens != nil {
		h := sha256.New()
		_ = binary.Write(h, binary.LittleEndian, text.tokens) // a hash takes everything
		all["the tokens of -data"] = fmt.Sprintf("%d, %.6x", len(text.tokens), h.Sum(nil))
	}
	all["the type in -model"] = o.model
	paths := map[string]string{"-eval": o.eval, "-adapter": o.lora.folder}
	if text.tokens == nil {
		paths["-data"] = text.source
	}
	if o.folder() {
		all["the type in -model"] = ""
		paths["-model"] = o.model
	}
	for name, path := range paths {
		if path == "" {
			continue
		}
		digest, err := filesDigest(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all["the files of "+name] = digest
	}
	return all, nil
}

// filesDigest describes a file, or the files below a folder: their number, and a hash of their names, sizes, and first and
// last 64 KiB. Large files that differ in between only have the same digest.
func filesDigest(path string) (string, error) {
	h, count := sha256.New(), 0
	err := filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(name) // hub folders have links
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		relative, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		count++
		fmt.Fprintf(h, "%q %d\n", relative, info.Size())
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		const part = 64 << 10
		_, err = io.Copy(h, io.NewSectionReader(f, 0, part))
		if err == nil && info.Size() > part {
			_, err = io.Copy(h, io.NewSectionReader(f, max(part, info.Size()-part), part))
		}
		return err
	})
	return fmt.Sprintf("%d, %.6x", count, h.Sum(nil)), err
}
