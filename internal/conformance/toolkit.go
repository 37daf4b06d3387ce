package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// toolkit is the emulator's SDK and the folder for what is compiled against it.
type toolkit struct {
	sdk, include, work string
	commit             string // of the emulator
	headers            string // hash of the headers, so that a binary is compiled again when they change
}

var flags = []string{"-std=c++17", "-O0", "-w", "-fPIC"}

// tell is the header that every program includes first. It has the headers that nearly all use, and an object that
// says at the end what the library said last, because the examples print only codes.
const tell = `#include <cstdint>
#include <cstdio>
#include <iostream>
#include <vector>
#include "acl/acl.h"
namespace {
struct Tell {
    ~Tell() { if (const char* m = aclGetRecentErrMsg()) std::fprintf(stderr, "CANN: %s\n", m); }
} tell_at_exit;
}
`

// openToolkit reads the headers of an SDK and compiles those that nearly every program has.
func openToolkit(sdk, work, commit string) (*toolkit, error) {
	sdk, err := filepath.Abs(sdk) // for headers that include its headers
	if err != nil {
		return nil, err
	}
	if work, err = filepath.Abs(work); err != nil {
		return nil, err
	}
	include := filepath.Join(sdk, "include")
	k := &toolkit{sdk: sdk, include: include, work: work, commit: commit}
	h := sha256.New()
	err = filepath.WalkDir(include, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintln(h, strings.TrimPrefix(path, include))
		h.Write(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("headers of the SDK (make sdk): %w", err)
	}
	h.Write([]byte(tell))
	k.headers = hex.EncodeToString(h.Sum(nil))[:16]
	if err := os.MkdirAll(work, 0o777); err != nil {
		return nil, err
	}
	return k, k.precompile(k.prefix(), tell)
}

// prefix is the header that is compiled once and included first.
func (k *toolkit) prefix() string { return filepath.Join(k.work, "prefix-"+k.headers+".h") }

// precompile writes a header and compiles it, so that g++ reads the result in its place.
func (k *toolkit) precompile(header, text string) error {
	if _, err := os.Stat(header + ".gch"); err == nil {
		return nil
	}
	if err := os.WriteFile(header, []byte(text), 0o666); err != nil {
		return err
	}
	args := append(append([]string{}, flags...), k.includes()...)
	_, err := command(context.Background(), nil, "g++", append(args, "-x", "c++-header", header, "-o", header+".gch")...)
	return err
}

func (k *toolkit) includes() []string {
	return []string{"-I" + k.include, "-I" + filepath.Join(k.include, "aclnn"), "-I" + filepath.Join(k.include, "aclnnop")}
}

// binary is the path of the compiled program of a text.
func (k *toolkit) binary(kind, text string) string {
	sum := sha256.Sum256([]byte(k.headers + kind + text))
	return filepath.Join(k.work, kind+"-"+hex.EncodeToString(sum[:12]))
}

// environ is the environment of a program that uses the SDK on a chip.
func (k *toolkit) environ(chip string) []string {
	return append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(k.sdk, "lib64"), "CANN_EMU_DEVICES=16", "CANN_EMU_SOC="+chip, "GOMAXPROCS=2")
}

// failure is the end of a command that did not succeed.
type failure struct {
	output string
	err    error
}

func (f *failure) Error() string { return f.err.Error() + ": " + f.output }
func (f *failure) Unwrap() error { return f.err }

var errTime = errors.New("did not end in time")

// command runs a program and returns what it wrote to both outputs.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	var out bytes.Buffer
	c := exec.CommandContext(ctx, name, args...)
	c.Env, c.Stdout, c.Stderr = env, &out, &out
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	if ctx.Err() != nil {
		err = errTime
	}
	if err != nil {
		return out.String(), &failure{out.String(), err}
	}
	return out.String(), nil
}

var errorLine = regexp.MustCompile(`(?m)^.*?(?:fatal )?error: (.*)$|undefined reference to .(\w+)`)

// firstError is the first message of a compiler or linker.
func firstError(text string) string {
	m := errorLine.FindStringSubmatch(text)
	if m == nil {
		return strings.TrimSpace(text)
	}
	if m[2] != "" {
		return "undefined " + m[2]
	}
	return m[1]
}
