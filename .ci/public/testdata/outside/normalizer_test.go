package service_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"example.com/service"
	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/cshim"
)

func TestMain(m *testing.M) { os.Exit(acltest.Suite{M: m}.Run()) }

// checkpoint writes the weights 1, 2.
func checkpoint(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	weight := safetensors.Of("norm.weight", []float32{1, 2}, 2)
	if err := safetensors.WriteFile(path, []safetensors.Data{weight}, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNormalizer(t *testing.T) {
	// What cann logs goes to the program's log.
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	dev := acltest.Device(t, acltest.Open(t, acl.WithLogger(logger)), 0)
	n, err := service.Load(t.Context(), dev, checkpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	rows := make([]half.BFloat16, 4)
	half.Encode(rows, []float32{3, 3, -2, 2})
	out, err := n.Normalize(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 4)
	half.Decode(got, out)
	for i, want := range []float32{1, 2, -1, 2} {
		if got[i] != want {
			t.Errorf("element %d is %v, not %v", i, got[i], want)
		}
	}
	if _, err := n.Normalize(t.Context(), rows[:3]); !errors.Is(err, acl.ErrInvalidArgument) {
		t.Errorf("three values: %v", err)
	}
}

// TestWithoutCANN: a program says what is missing, and runs nothing.
func TestWithoutCANN(t *testing.T) {
	rt, err := acl.Open(acl.Config{})
	if err == nil {
		defer rt.Close()
	}
	if cshim.Emulated && err != nil || err != nil && !errors.Is(err, acl.ErrNotInstalled) {
		t.Fatal(err)
	}
}

func TestMaskOf(t *testing.T) {
	d, err := service.MaskOf([]int64{5, 3}, 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(d)
	if _, err := service.MaskOf([]int64{5, 6}, 5); err == nil {
		t.Error("a sequence may not be longer than the longest")
	}
}
