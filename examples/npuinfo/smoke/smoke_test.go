package smoke

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// The test program is the process of a part when these are set.
const (
	partVariable  = "SMOKE_TEST_PART"
	crashVariable = "SMOKE_TEST_CRASH" // a step at which the process ends
)

func TestMain(m *testing.M) {
	part := os.Getenv(partVariable)
	if part == "" {
		os.Exit(m.Run())
	}
	cfg := Config{Golden: os.Getenv("CANN_GOLDEN_DIR"), Skip: strings.Split(os.Getenv("SMOKE_TEST_SKIP"), "\n"), Limit: time.Second}
	runPart(context.Background(), &cfg, part, func(m message) {
		if err := encode(os.Stdout, m); err != nil {
			os.Exit(8)
		}
		if m.Trying != nil && m.Trying.Name() == os.Getenv(crashVariable) {
			os.Stderr.WriteString("something printed before the end\n")
			os.Exit(7)
		}
	})
	os.Exit(0)
}

// spawn runs parts in processes of the test program with more variables.
func spawn(t *testing.T, dir string, environment ...string) func(context.Context, string, []string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	return func(ctx context.Context, part string, skip []string) *exec.Cmd {
		c := exec.CommandContext(ctx, program)
		c.Env = append(os.Environ(), partVariable+"="+part, "CANN_GOLDEN_DIR="+dir, "SMOKE_TEST_SKIP="+strings.Join(skip, "\n"))
		c.Env = append(c.Env, environment...)
		return c
	}
}

func goldenDir(t *testing.T) string {
	t.Helper()
	dir, err := GoldenFolder()
	if err != nil {
		t.Skip(err)
	}
	return dir
}

// TestFailures checks that a kernel that fails, hangs or ends its process costs only its own result.
func TestFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("processes that are started again")
	}
	acltest.Need(t)
	dir := goldenDir(t)
	const part, step = "golden:swiglu/f32", "swiglu/f32|float32|swiglu|"
	run := func(environment ...string) *Report {
		return Run(t.Context(), Config{Golden: dir, Only: part, Limit: time.Second, Spawn: spawn(t, dir, environment...)})
	}
	sound := run()
	require.Empty(t, sound.Problems)
	require.NotEmpty(t, sound.Results)
	require.Zero(t, sound.Bad(), "%+v", sound.Results)
	fused := sound.Results[slices.IndexFunc(sound.Results, func(x Result) bool { return strings.HasPrefix(x.Name(), step) && x.Verdict == OK })]
	for name, c := range map[string]struct {
		variable, reason string
		verdict          Verdict
	}{
		"crash":  {crashVariable + "=" + fused.Name(), "something printed before the end", Crashed},
		"refuse": {"CANN_EMU_FAULTS=aclnnSwiGluGetWorkspaceSize:1+=561003", "561003", Refused},
		"fail":   {"CANN_EMU_FAULTS=run/aclnnSwiGlu:1+=507015", "507015", Failed},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "crash" && fused.Kernel == "composite" {
				t.Skip("there is no fused kernel")
			}
			r := run(c.variable)
			require.Empty(t, r.Problems)
			require.GreaterOrEqual(t, len(r.Results), len(sound.Results)-2)
			bad := r.Results[slices.IndexFunc(r.Results, func(x Result) bool { return x.Verdict.Bad() })]
			require.Equal(t, c.verdict, bad.Verdict)
			require.Equal(t, "swiglu", bad.Op)
			require.Contains(t, bad.Reason, c.reason)
			require.True(t, slices.ContainsFunc(r.Results, func(x Result) bool { return x.Op == "swiglu_grad" && x.Verdict == OK }), "what comes after it was tried: %+v", r.Results)
		})
	}
}

// TestChatter: what a library prints on the output of a part, however long, neither stops it nor hides that it ended
// early.
func TestChatter(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r := Run(ctx, Config{Only: "measure:copies", Spawn: func(ctx context.Context, _ string, _ []string) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "exec head -c 3000000 /dev/zero /nowhere")
	}})
	require.NoError(t, ctx.Err())
	require.Contains(t, r.Problems[len(r.Problems)-1], "exit status 1")
}

func TestProblems(t *testing.T) {
	r := Run(t.Context(), Config{Golden: t.TempDir(), Only: "none"})
	require.Len(t, r.Problems, 1)
	require.Contains(t, r.Problems[0], casesFile)
	require.Empty(t, r.Results)
	var out bytes.Buffer
	require.NoError(t, Part(t.Context(), Config{}, "golden", &out))
	require.Contains(t, out.String(), "problem")
	r = Run(t.Context(), Config{Golden: goldenDir(t), Only: "gelden:"})
	require.Len(t, r.Problems, 1)
	require.Contains(t, r.Problems[0], `no part begins with "gelden:"`)
	t.Setenv("CANN_GOLDEN_DIR", "/elsewhere")
	dir, err := GoldenFolder()
	require.NoError(t, err)
	require.Equal(t, "/elsewhere", dir)
	_, err = ratio([]float32{1}, []float32{1, 2})
	require.ErrorContains(t, err, "1 elements")
}
