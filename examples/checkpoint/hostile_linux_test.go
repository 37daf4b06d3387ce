package checkpoint_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget/budgettest"
	"github.com/goascend/cann/examples/checkpoint"
)

// TestHostileManifests: a manifest of up to 10 MB is read or refused within the bounds of strangers' files, and its error is short.
func TestHostileManifests(t *testing.T) {
	const size = 10_000_000
	list := func(before, one, after string) string {
		return before + strings.Repeat(one+",", (size-len(before)-len(after)-len(one))/(len(one)+1)) + one + after
	}
	var keys strings.Builder
	for i := 0; keys.Len() < size-100; i++ {
		fmt.Fprintf(&keys, `"%x":"",`, i)
	}
	const head, tensors, end = `{"format":2,"files":[`, `{"name":"x","tensors":[`, `]}]}`
	for name, c := range map[string]struct{ body, want string }{
		"files":             {list(head, `{}`, `]}`), "objects; at most"},
		"files that are":    {list(head, `{"name":"manifest.json","size":9,"header":1000000000}`, `]}`), "were written"},
		"tensors":           {list(head+tensors, `{}`, end), "objects; at most"},
		"tensors of a name": {list(head+tensors, `{"name":"a","shape":[],"axis":1,"index":0,"segment":1}`, end), "no such file"},
		"axes":              {list(head+tensors+`{"name":"a","segment":1,"shape":[`, `1`, `]}`+end), "axes; at most 32"},
		"axes of nothing":   {list(head+tensors+`{"name":"a","segment":1,"shape":[`, `-1`, `]}`+end), "axes; at most 32"},
		"blocks":            {list(head+tensors+`{"name":"a","segment":1,"shape":[2],"of":2,"blocks":[`, `0`, `]}`+end), "blocks; at most 10000"},
		"a name":            {head + tensors + `{"name":"` + strings.Repeat("a", size-200) + `","shape":[-1]}` + end, "bytes of a name; at most 1000"},
		"a file's name":     {head + `{"name":"../` + strings.Repeat("a", size-200) + `"}]}`, "outside of its folder"},
		"keys":              {`{"format":2,"data":{` + strings.TrimSuffix(keys.String(), ",") + `}}`, ""},
		"versions":          {`{"format":2,"versions":{` + strings.TrimSuffix(keys.String(), ",") + `}}`, ""},
		"unknown keys":      {`{"format":2,` + strings.TrimSuffix(keys.String(), ",") + `}`, `unknown field "0"`},
		"an unknown key":    {`{"format":2,"part":1}`, `unknown field "part"`},
		"what follows":      {`{"format":2} {}`, "something follows"},
		"a brace more":      {`{"format":2}}`, "something follows"},
		"nulls":             {list(head+tensors, `null`, end), "objects; at most"},
		"depth":             {`{"format":2,"model":` + strings.Repeat("[", size/2-20) + strings.Repeat("]", size/2-20) + `}`, "exceeded max depth"},
		"many blocks":       {head + tensors + `{"name":"a","segment":1,"shape":[2],"of":2,"blocks":[` + strings.Repeat("3,", 9000) + `3]}` + end, "9001 impossible blocks"},
		"a negative size":   {head + `{"name":"manifest.json","size":-1}]}`, "-1 were written"},
		"a folder":          {head + `{"name":"..","size":4096}]}`, "outside of its folder"},
		"a pipe":            {head + `{"name":"pipe","size":0}]}`, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(c.body), size)
			dir := t.TempDir()
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
			content := append(fmt.Appendf(nil, "checkpoint 2 sha256 %x\n", sha256.Sum256([]byte(c.body))), c.body...)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), content, 0o600))
			c.body, content = "", nil
			budgettest.Bounded(t, func() {
				set, err := checkpoint.Open(dir)
				if c.want == "" {
					require.NoError(t, err)
					require.NoError(t, set.Close())
					return
				}
				require.ErrorContains(t, err, c.want)
				require.Less(t, len(err.Error()), 1000)
			})
		})
	}
}
